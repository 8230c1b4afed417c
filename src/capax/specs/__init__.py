"""What a run is: a task, a model, a training, a protocol and a seed.

Every spec is frozen, refuses unknown fields, and is the same thing as a Python object, JSON, a TOML table and the
command line's flags (which are made from these fields). Defaults are the papers' values where they state them; the
others are ours and say so.
"""

from capax.specs.associations import Associations as Associations
from capax.specs.associative import AssociativeAttention as AssociativeAttention
from capax.specs.biographies import Biographies as Biographies
from capax.specs.channel import KeyQueryChannel as KeyQueryChannel
from capax.specs.facts import Facts as Facts
from capax.specs.huggingface import HuggingFace as HuggingFace
from capax.specs.lora import Lora as Lora
from capax.specs.model import Model as Model
from capax.specs.modules import Module as Module
from capax.specs.protocols import PROTOCOLS as PROTOCOLS
from capax.specs.protocols import Budget as Budget
from capax.specs.protocols import Capacity as Capacity
from capax.specs.protocols import Mac as Mac
from capax.specs.protocols import Mls as Mls
from capax.specs.protocols import Shatter as Shatter
from capax.specs.relations import Relations as Relations
from capax.specs.run import Run as Run
from capax.specs.sequences import Sequences as Sequences
from capax.specs.spec import LARGEST_LIBRARY as LARGEST_LIBRARY
from capax.specs.spec import Spec as Spec
from capax.specs.task import Task as Task
from capax.specs.text import Text as Text
from capax.specs.training import Training as Training
from capax.specs.transformer import Transformer as Transformer
from capax.specs.vector_modules import AssociationModule as AssociationModule
from capax.specs.vector_modules import RelationModule as RelationModule
from capax.specs.x_transformers import XTransformers as XTransformers
