"""SOAP (Vyas et al. 2024, arXiv 2409.11321), stacked: Adam in the eigenbases of Shampoo's two averages.

Of a matrix W with gradient G it keeps running averages of G Gᵀ and Gᵀ G, takes their eigenvectors for coordinates, and
is Adam there. Between refreshes, every `Training.basis_every` steps by one power iteration and QR, coordinates stay.

How we differ from the authors' code: the first step is not left out (its bases are those of its own gradient); new
bases are of averages with the gradient of the step that they begin at; each head is a matrix of its own; sides longer
than `LONGEST_SIDE` keep their coordinates, as do gains and biases, which so are Adam's; rows and columns that have
never had a gradient, such as a smaller head's padding, stay as they are; there is no weight decay.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from capax.specs import Training
from capax.specs.training import LONGEST_SIDE
from capax.training.optimizers.adam import Adam, is_matrix

SIDES = {"left": -2, "right": -1}
"""A matrix's sides, and which axis of it each is of."""


class Soap(Adam):
    """SOAP of every matrix, the last two axes of a parameter; members and heads never mix."""

    def __init__(self, parameters: Mapping[str, Tensor], training: Training, gains: tuple[str, ...] = ()) -> None:
        super().__init__(parameters, training, gains)
        self._sides = {
            name: [side for side, axis in SIDES.items() if 1 < shape[axis] <= LONGEST_SIDE]
            for name, shape in self._shapes.items()
            if is_matrix(name, shape)
        }
        self._averages: dict[tuple[str, str], Tensor] = {}
        # rows side by side, as checkpoints have them: some processors round products otherwise in another layout
        self._bases: dict[tuple[str, str], Tensor] = {}
        self._steps = 0  # as `step` of the state, which may be on a GPU
        self._holed: list[tuple[str, str]] = []

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update the parameters by their gradients, and set these to zero."""
        gradients = self.parts(self._gradient)
        for name, sides in self._sides.items():
            for side in sides:
                gradient = gradients[name] if side == "left" else gradients[name].mT
                average = self._averages.get((name, side))
                now = gradient @ gradient.mT
                kept = self._training.basis_beta
                self._averages[name, side] = now * (1 - kept) if average is None else average.lerp_(now, 1 - kept)
        if self._steps == 0:
            self._bases = {place: _eigenbases(average) for place, average in self._averages.items()}
            self._find_holes()
        elif self._steps % self._training.basis_every == 0:
            self._refresh()
        self._turn(gradients)
        change = torch.zeros_like(self._all)
        self._adam(change, self._gradient, lr)
        self._steps += 1
        self._turn(self.parts(change), back=True)
        self._spare_holes(self.parts(change))
        self._scale_gains(change)
        self._all += change
        self._gradient.zero_()

    def _turn(self, parts: Mapping[str, Tensor], back: bool = False) -> None:
        """Replace matrices by what they are in the coordinates of their bases, or back."""
        for name, sides in self._sides.items():
            turned = parts[name]
            for side in sides:
                basis = self._bases[name, side]
                if side == "left":
                    turned = (basis if back else basis.mT) @ turned
                else:
                    turned = turned @ (basis.mT if back else basis)
            if sides:
                parts[name].copy_(turned)

    def _refresh(self) -> None:
        """New bases; the mean gradients are turned into them, their squares only put in the new order."""
        means, squares = self.parts(self._state["exp_avg"]), self.parts(self._state["exp_avg_sq"])
        self._turn(means, back=True)
        powers = {}
        for (name, side), average in self._averages.items():
            basis = self._bases[name, side]
            turned = average @ basis
            # descending, as power iterations leave them
            order = (basis * turned).sum(-2).argsort(dim=-1, descending=True, stable=True)
            powers[name, side] = _in_order(turned, order, -1)
            squares[name].copy_(_in_order(squares[name], order, SIDES[side]))
        self._bases = _orthonormal(powers)
        self._turn(means)

    def _find_holes(self) -> None:
        """Note in which averages some row has had no gradient; there can only be fewer later."""
        self._holed = [place for place, average in self._averages.items() if not _touched(average).all()]

    def _spare_holes(self, changes: Mapping[str, Tensor]) -> None:
        """Leave what has had no gradient as it is: the rounding of bases must not fill a smaller head's padding."""
        for name, side in self._holed:
            touched = _touched(self._averages[name, side])
            changes[name].mul_(touched[..., None] if side == "left" else touched[..., None, :])

    def moments(self) -> dict[str, dict[str, Tensor]]:
        """What it remembers of each parameter, with a leading member axis; empty before the first step."""
        found = super().moments()
        for kind, of in (("average", self._averages), ("basis", self._bases)):
            for (name, side), value in of.items():
                found[name][f"{kind}_{side}"] = value
        return found

    def remember(self, moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on with what another one remembered of parameters of these names and shapes."""
        own = {f"{kind}_{side}" for kind in ("average", "basis") for side in SIDES}
        super().remember({name: {m: v for m, v in of.items() if m not in own} for name, of in moments.items()})
        kept = {(name, side): of for name, of in moments.items() for side in SIDES if f"basis_{side}" in of}
        self._averages = {place: of[f"average_{place[1]}"].clone() for place, of in kept.items()}
        self._bases = {place: of[f"basis_{place[1]}"].clone() for place, of in kept.items()}
        self._steps = int(self._state["step"]) if self._state else 0
        self._find_holes()


def _eigenbases(averages: Tensor) -> Tensor:
    """Each matrix's eigenvectors, those of the largest eigenvalues first; the coordinates' where it has no numbers.

    One that is not finite would raise an error for all: its member diverges, and the others must not notice.
    """
    finite = averages.isfinite().all(-1).all(-1)[..., None, None]
    identity = torch.eye(averages.shape[-1], dtype=averages.dtype, device=averages.device)
    return _eigenvectors(torch.where(finite, averages, identity)).flip(-1).contiguous()


def _eigenvectors(averages: Tensor) -> Tensor:
    """Of each symmetric matrix, in ascending order of its eigenvalues.

    LAPACK gives up in single precision on some whose rows are of very different sizes, such as those of a table that a
    batch has few tokens of. Those alone are solved in double precision: the others keep every bit.
    """
    try:
        return torch.linalg.eigh(averages)[1]
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        if averages.dim() == 2:
            return torch.linalg.eigh(averages.double())[1].to(averages.dtype)
        return torch.stack([_eigenvectors(one) for one in averages])


def _orthonormal(matrices: dict[tuple[str, str], Tensor]) -> dict[tuple[str, str], Tensor]:
    """An orthonormal basis of each matrix's columns in their order, the Q of its QR."""
    if all(matrix.device.type == "cpu" for matrix in matrices.values()):
        return {place: torch.linalg.qr(matrix)[0].contiguous() for place, matrix in matrices.items()}
    return orthonormal_by_size(matrices)


def orthonormal_by_size(matrices: dict[tuple[str, str], Tensor]) -> dict[tuple[str, str], Tensor]:
    """As `torch.linalg.qr` has them, up to rounding, of all matrices of one size together.

    Hundreds of small ones, one after another, would leave most of a GPU idle.
    """
    found: dict[tuple[str, str], Tensor] = {}
    for size in {matrix.shape[-1] for matrix in matrices.values()}:
        alike = {place: matrix for place, matrix in matrices.items() if matrix.shape[-1] == size}
        stacks = [matrix.reshape(-1, size, size) for matrix in alike.values()]
        parts = _stacked(torch.cat(stacks)).split([len(stack) for stack in stacks])
        found |= {place: part.view_as(alike[place]) for place, part in zip(alike, parts, strict=True)}
    return {place: found[place] for place in matrices}


def _stacked(matrices: Float[Tensor, "b n n"]) -> Float[Tensor, "b n n"]:
    """The Q of each matrix's QR, by products of whole stacks: torch's own forms one after another on a GPU.

    Q is the product of reflections I − τ v vᵀ, which is I − V T Vᵀ with T = (I + diag(τ) U)⁻¹ diag(τ), U the part of
    VᵀV above its diagonal (Schreiber and Van Loan 1989).
    """
    packed, scales = torch.geqrf(matrices)
    vectors = packed.tril(-1)
    vectors.diagonal(dim1=-2, dim2=-1).fill_(1)
    coupled = scales[..., None] * (vectors.mT @ vectors).triu(1)
    factor = torch.linalg.solve_triangular(coupled, torch.diag_embed(scales), upper=True, unitriangular=True)
    return torch.eye(matrices.shape[-1], dtype=packed.dtype, device=packed.device) - vectors @ factor @ vectors.mT


def _touched(averages: Tensor) -> Tensor:
    """Per average of G Gᵀ, which rows of G were ever other than zero."""
    return averages.diagonal(dim1=-2, dim2=-1) != 0


def _in_order(matrices: Tensor, order: Tensor, axis: int) -> Tensor:
    """Rows (axis −2) or columns (axis −1) of each matrix in an order of its own."""
    index = order[..., None] if axis == -2 else order[..., None, :]
    return matrices.gather(axis, index.expand_as(matrices))
