"use strict";
// Pure functions: from a law and a question to the frontier that `capax plan` prints (planning/plan.py, laws/law.py).
const capaxPlanner = (() => {
  const LEAST = 0.01; // laws.law.LEAST
  const TINY = 2.2250738585072014e-308;
  const LARGEST = Number.MAX_VALUE;
  const LARGEST_VOCABULARY = 10000000;
  const unpack = (text) => new Float64Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

  // A number as Python's format "g" writes it.
  const general = (value, digits = 6) => {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    if (value === 0) return "0";
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const exponent = Number(power);
    const stripped = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (exponent >= -4 && exponent < digits) return stripped(value.toFixed(digits - 1 - exponent));
    return `${stripped(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  };

  // What a law says of a row: `terms` is all that does not depend on the parameters.
  const product = {
    terms: (law, row) => law.columns.map((name) => (name === "seq_len" ? -Math.log(Math.max(row[name] - 1, TINY)) : Math.log(row[name]))),
    capacity: (law, theta, terms) => {
      let log = 0;
      for (let place = 0; place < terms.length; place++) log += terms[place] * theta[place + 1];
      return theta[0] * Math.exp(Math.min(Math.max(log, -600), 600));
    },
  };
  const ecm = {
    terms: (law, row) => [row.seq_len, row.n_heads, row.d_model],
    capacity: (law, [a, b, c, d, e, alpha, beta], [n, h, width]) => {
      const linear = (a / (n ** (b * h + c) + d) + e) * width;
      const plateau = alpha * h + beta;
      const saturated = law.options.as_printed ? plateau > linear : plateau < linear;
      const value = saturated ? plateau : linear;
      return Number.isNaN(value) ? 0 : Math.min(Math.max(value, -LARGEST), LARGEST);
    },
    refuse: (law, theta, rows) => {
      const [, b, c] = theta;
      const [low, high] = law.domain.ranges.n_heads;
      const beyond = rows.find((row) => b * row.n_heads + c <= 0 && (row.n_heads > high || row.n_heads < low));
      if (beyond) {
        throw new Error(`n_heads: ${general(beyond.n_heads)}: the exponent bH + c is ${general(b * beyond.n_heads + c, 3)} there (it changes sign at ${general(-c / b, 3)} heads), so capacity would grow with seq_len; the law is known for ${general(low)} to ${general(high)} heads`);
      }
      for (const row of rows) {
        const capacity = ecm.capacity(law, theta, ecm.terms(law, row));
        if (capacity <= 0) {
          const place = law.columns.map((name) => `${name} ${general(row[name])}`).join(", ");
          throw new Error(`the law gives ${general(capacity, 3)} sequences at ${place}: it does not hold there`);
        }
      }
    },
  };
  const bits = {
    terms: (law, row) => [row.trainable_parameters / ((law.options.loss === "all" ? row.seq_len - 1 : 1) * Math.log2(row.vocab_size))],
    capacity: (law, theta, terms) => theta[0] * terms[0],
  };
  const FORMS = { power: product, depth: product, ecm, bits };

  // The packed numbers of a law, read once; a column of refits that all agree is repeated.
  const read = new WeakMap();
  const numbers = (law) => {
    if (!read.has(law)) {
      const noise = unpack(law.noise);
      const columns = law.draws.map((text) => {
        const values = unpack(text);
        return values.length === 1 ? new Float64Array(noise.length).fill(values[0]) : values;
      });
      const draws = [...noise.keys()].map((draw) => columns.map((column) => column[draw]));
      read.set(law, { theta: [...unpack(law.values)], sigma: unpack(law.sigma)[0], draws, noise });
    }
    return read.get(law);
  };

  const scale = (count) => Math.log(Math.max(count, LEAST)) + Math.min(count / LEAST - 1, 0);

  // numpy's quantile with method "weibull" of sorted values.
  const quantile = (sorted, probability) => {
    const place = probability * (sorted.length + 1) - 1;
    if (place <= 0) return sorted[0];
    if (place >= sorted.length - 1) return sorted[sorted.length - 1];
    const below = Math.floor(place);
    return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
  };

  // The count below which a new measurement falls with a probability.
  const countBelow = (law, row, probability) => {
    const { theta, sigma, draws, noise } = numbers(law);
    const form = FORMS[law.name];
    const terms = form.terms(law, row);
    const center = scale(form.capacity(law, theta, terms));
    const errors = Float64Array.from(draws, (draw, place) => (center + sigma * noise[place] - scale(form.capacity(law, draw, terms))) / draw[draw.length - 1]);
    return Math.exp(center + sigma * quantile(errors.sort(), probability));
  };

  // models.size.transformer_parameters
  const parameters = (spec, seqLen, vocabSize) => {
    const { d_model: width, n_heads: heads } = spec;
    let block = 2 * heads * width * (spec.d_head + (spec.d_value || spec.d_head));
    if (spec.norms) block += spec.ffn === "none" ? width : 2 * width;
    if (spec.ffn === "mlp") block += 8 * width ** 2 + 5 * width;
    let trainable = spec.n_layers * block + (spec.norms ? width : 0);
    let total = trainable;
    for (const [state, size] of [[spec.embeddings, vocabSize * width], [spec.positions, (seqLen - 1) * width], [spec.readout, vocabSize * width]]) {
      total += size;
      if (state === "trained") trainable += size;
    }
    return { trainable_parameters: trainable, total_parameters: total };
  };

  const inside = (law, row) => {
    const { ranges, protocol, usable } = law.domain;
    const fits = ([name, [low, high]]) => !(name in row) || (row[name] >= low && row[name] <= high);
    return usable && Object.entries(ranges).every(fits) && Object.entries(protocol).every(([name, [value]]) => !(name in row) || row[name] === value);
  };
  const outsideInWords = (law, row) => {
    const { ranges, protocol, usable } = law.domain;
    const reasons = usable ? [] : ["this law is not usable as published"];
    for (const [name, [low, high]] of Object.entries(ranges)) {
      const range = low === high ? general(low) : `${general(low)} to ${general(high)}`;
      if (name in row && !(low <= row[name] && row[name] <= high)) reasons.push(`${name} ${general(row[name])} is outside ${range}`);
    }
    for (const [name, [value, word]] of Object.entries(protocol)) {
      if (name in row && row[name] !== value) reasons.push(`${name} ${row[name]} is not ${word}`);
    }
    return reasons;
  };

  const choices = (name, given, law, multiple = 1) => {
    if (given) {
      const values = [...new Set(given)].sort((a, b) => a - b);
      if (!values.length || values[0] < 1) throw new Error(`${name}: positive integers, got ${given.join(", ") || "none"}`);
      return values;
    }
    const { ranges, protocol, words } = law.domain;
    if (name in ranges) {
      const found = [];
      for (let value = Math.ceil(ranges[name][0] / multiple) * multiple; value <= Math.floor(ranges[name][1]); value += multiple) found.push(value);
      if (found.length) return found;
    } else if (name in protocol && Number.isInteger(protocol[name][0])) {
      return [protocol[name][0]];
    } else if (name === "n_layers") {
      return [1];
    }
    throw new Error(`${name}: the law's domain (${words}) offers none; give the values to choose from`);
  };

  const check = (question) => {
    for (const [name, least] of [["sequences", 1], ["seq_len", 2], ["width_multiple", 1], ["max_parameters", 1]]) {
      const value = question[name];
      if (value === null) continue;
      if (!Number.isSafeInteger(value)) throw new Error(`${name}: an integer, got ${value}`);
      if (value < least) throw new Error(`${name}: at least ${least}, got ${value}`);
    }
    const { probability } = question;
    if (!(probability > 0 && probability < 1)) {
      throw new Error(`probability: between 0 and 1, got ${Number.isInteger(probability) ? probability.toFixed(1) : probability}`);
    }
  };
  const vocabulary = (law, given) => {
    if (given === null) return law.vocab_size;
    if (!Number.isSafeInteger(given)) throw new Error(`vocab_size: an integer, got ${given}`);
    if (given < 2) throw new Error(`vocab_size: should be at least 2, got ${given}`);
    if (given > LARGEST_VOCABULARY) throw new Error(`vocab_size: should be at most ${LARGEST_VOCABULARY}, got ${given}`);
    return given;
  };

  const NOTHING = { vocab_size: null, probability: 0.9, n_heads: null, n_layers: null, d_model: null, width_multiple: 8, max_parameters: null, extrapolate: false };

  // The smallest architecture of each depth and number of heads that holds a target; throws an Error in the words of
  // `capax plan`. `candidates` are all that were to choose from, for the figure.
  const plan = (law, asked) => {
    const question = { ...NOTHING, ...asked };
    check(question);
    const grid = ["n_layers", "n_heads", "d_model"].map((name) => choices(name, question[name], law, name === "d_model" ? question.width_multiple : 1));
    const [layers, heads, widths] = grid;
    const vocabSize = vocabulary(law, question.vocab_size);
    const rows = [];
    for (const n_layers of layers) for (const n_heads of heads) for (const d_model of widths) {
      const spec = { ...law.model, n_layers, n_heads, d_model };
      rows.push({ seq_len: question.seq_len, vocab_size: vocabSize, n_layers, n_heads, d_model, d_head: spec.d_head, ...parameters(spec, question.seq_len, vocabSize) });
    }
    const ends = [(values) => values[0], (values) => values[values.length - 1]].map((end) => ({
      seq_len: question.seq_len, ...(question.vocab_size === null ? {} : { vocab_size: question.vocab_size }), n_layers: end(layers), n_heads: end(heads), d_model: end(widths),
    }));
    const outside = [...new Set(ends.flatMap((end) => outsideInWords(law, end)))];
    if (outside.length && !question.extrapolate) {
      throw new Error(`outside the domain of ${law.name} (${law.source}): ${outside.join("; ")}; choose another law, or extrapolate all the same`);
    }
    const most = question.max_parameters;
    const kept = rows.map((row) => (question.extrapolate || inside(law, row)) && (most === null || row.trainable_parameters <= most));
    if (!kept.includes(true)) {
      const smallest = rows.reduce((least, row) => Math.min(least, row.trainable_parameters), Infinity);
      throw new Error(`max_parameters: at least ${smallest} for the smallest architecture to choose from, got ${most === null ? "None" : most}`);
    }
    const form = FORMS[law.name];
    const { theta } = numbers(law);
    if (form.refuse) form.refuse(law, theta, rows);
    rows.forEach((row, place) => {
      row.memorized = form.capacity(law, theta, form.terms(law, row));
      row.at_least = kept[place] ? countBelow(law, row, 1 - question.probability) : null;
    });
    const places = [];
    for (let first = 0; first < rows.length; first += widths.length) {
      const found = widths.findIndex((_, width) => kept[first + width] && rows[first + width].at_least >= question.sequences);
      if (found >= 0) places.push(first + found);
    }
    const bySize = (a, b) => rows[a].trainable_parameters - rows[b].trainable_parameters || rows[a].total_parameters - rows[b].total_parameters;
    places.sort(bySize);
    const gain = (place, step, last) => {
      if (last) return null;
      const [here, there] = [rows[place], rows[place + step]];
      return 1000 * (there.memorized - here.memorized) / (there.trainable_parameters - here.trainable_parameters);
    };
    const efficient = (place) => !places.some((other) => {
      const [a, b] = [rows[other], rows[place]];
      const same = a.trainable_parameters === b.trainable_parameters && a.total_parameters === b.total_parameters;
      return !same && a.trainable_parameters <= b.trainable_parameters && a.total_parameters <= b.total_parameters;
    });
    const architecture = (place) => {
      const row = rows[place];
      const width = place % widths.length;
      const head = Math.floor(place / widths.length) % heads.length;
      return {
        n_layers: row.n_layers, n_heads: row.n_heads, d_model: row.d_model, d_head: row.d_head,
        trainable_parameters: row.trainable_parameters, total_parameters: row.total_parameters, bytes: 4 * row.total_parameters,
        memorized: row.memorized, at_least: row.at_least,
        tokens_per_parameter: question.seq_len * row.memorized / row.trainable_parameters,
        gain_of_head: gain(place, widths.length, head === heads.length - 1),
        gain_of_width: gain(place, 1, width === widths.length - 1),
        efficient: efficient(place),
      };
    };
    let nearest = null;
    if (!places.length) {
      nearest = rows.reduce((best, row, place) => (kept[place] && (best === null || row.at_least > rows[best].at_least) ? place : best), null);
    }
    return {
      sequences: question.sequences, seq_len: question.seq_len, vocab_size: vocabSize, probability: question.probability,
      architectures: places.map(architecture), nearest: nearest === null ? null : architecture(nearest),
      outside: outside.map((reason) => `outside the domain of the law: ${reason}`), candidates: rows.filter((_, place) => kept[place]),
    };
  };
  return { plan, general };
})();
