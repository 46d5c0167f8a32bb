// The randomizers: from the number of an answer to a report, each the channel of the Python class of that name.
// `fits` says whether a report speaks for an answer: what the collector will count.

const parity = (bits) => {
  let odd = 0;
  for (; bits; bits &= bits - 1) odd ^= 1;
  return odd;
};

// k-ary randomized response: the value itself, or, with probability 1 − truth, one of the others.
const k_ary = (value, size, truth) => (coin(truth) ? value : (value + 1 + one_of(size - 1)) % size);

const krr = {
  randomize: (value) => k_ary(value, channel.size, channel.truth),
  fits: (report, value) => report === value,
};

const hadamard = {
  randomize(value) {
    const row = Math.floor(value / channel.blocks) + 1;
    let block = value % channel.blocks;
    let column = one_of(channel.block);
    const away = !coin(channel.truth);
    const half = one_of(2 * channel.blocks - 1);
    if (away && half > 0) block = (block + ((half + 1) >> 1)) % channel.blocks;
    else if ((parity(row & column) === 1) !== away) column ^= row & -row;
    return block * channel.block + column;
  },
  fits: (report, value) =>
    Math.floor(report / channel.block) === value % channel.blocks &&
    parity((Math.floor(value / channel.blocks) + 1) & (report % channel.block)) === 0,
};

// Arithmetic of GF(g): modulo a prime g, or, for g = 2^bits, of polynomials modulo channel.polynomial.
function product(a, b) {
  if (!channel.bits) return (a * b) % channel.hashes;
  let total = 0;
  for (let place = 0; place < channel.bits; place++) if ((b >> place) & 1) total ^= a << place;
  for (let place = 2 * channel.bits - 1; place >= channel.bits; place--)
    if ((total >> place) & 1) total ^= channel.polynomial << (place - channel.bits);
  return total;
}

function hash(code, value) {
  const g = channel.hashes;
  let total = 0;
  for (let digit = 0; digit < channel.digits; digit++) {
    const part = product(code % g, value % g);
    total = channel.bits ? total ^ part : (total + part) % g;
    code = Math.floor(code / g);
    value = Math.floor(value / g);
  }
  return total;
}

const hashing = {
  randomize(value) {
    const code = one_of(channel.functions);
    return code * channel.hashes + k_ary(hash(code, value), channel.hashes, channel.truth);
  },
  fits: (report, value) => hash(Math.floor(report / channel.hashes), value) === report % channel.hashes,
};

// Sets of answers, packed into 64-bit words.
function packed(chosen) {
  const words = new Array((survey.answers.length + 63) >> 6).fill(0n);
  for (const value of chosen) words[value >> 6] |= 1n << BigInt(value & 63);
  return words.map((word) => BigInt.asIntN(64, word));
}

const within = (report, value) => ((BigInt.asUintN(64, report[value >> 6]) >> BigInt(value & 63)) & 1n) === 1n;

const unary = {
  randomize: (value) =>
    packed([...survey.answers.keys()].filter((each) => coin(each === value ? channel.truth : channel.other))),
  fits: within,
};

const subset = {
  // The first places of a random order of the other answers (Fisher, Yates), and the value itself or not.
  randomize(value) {
    const own = coin(channel.truth);
    const others = [...survey.answers.keys()].filter((each) => each !== value);
    const wanted = channel.chosen - (own ? 1 : 0);
    for (let place = 0; place < wanted; place++) {
      const from = place + one_of(others.length - place);
      [others[place], others[from]] = [others[from], others[place]];
    }
    return packed([...others.slice(0, wanted), ...(own ? [value] : [])]);
  },
  fits: within,
};
