const survey = JSON.parse(document.getElementById("survey").textContent);
const channel = survey.channel;

// Exact chances: whole numbers of any size from crypto.getRandomValues; nothing is rounded.

// A uniform whole number in [0, bound): as many random bits as bound − 1 has, drawn again while not below it.
function below(bound) {
  const bits = (bound - 1n).toString(2).length;
  const bytes = new Uint8Array((bits + 7) >> 3);
  const spare = BigInt(8 * bytes.length - bits);
  for (;;) {
    crypto.getRandomValues(bytes);
    let value = 0n;
    for (const byte of bytes) value = (value << 8n) | BigInt(byte);
    value >>= spare;
    if (value < bound) return value;
  }
}

const one_of = (count) => Number(below(BigInt(count)));

// True with probability exactly numerator/denominator.
const coin = ([numerator, denominator]) => below(BigInt(denominator)) < BigInt(numerator);

// The whole part of the root (Newton).
function root(square) {
  if (square < 2n) return square;
  let guess = 1n << BigInt((square.toString(2).length + 1) >> 1);
  for (;;) {
    const next = (guess + square / guess) >> 1n;
    if (next >= guess) return guess;
    guess = next;
  }
}

// True with probability γ ≤ 1, of which bounds(bits) = [low, high, unit] says low/unit ≤ γ·2^bits ≤ high/unit. As many
// random bits are compared as decide it; each decision is that of infinitely many.
function real_coin(bounds) {
  let bits = 64n;
  let word = below(1n << bits);
  for (;;) {
    const [low, high, unit] = bounds(bits);
    if ((word + 1n) * unit <= low) return true;
    if (word * unit >= high) return false;
    word = (word << 64n) | below(1n << 64n);
    bits += 64n;
  }
}

// True with probability e^−γ, γ ≤ 1 (von Neumann; Canonne, Kamath, Steinke 2020, algorithm 1).
function exponential_coin(bounds) {
  let tries = 1n;
  while (real_coin((bits) => { const [low, high, unit] = bounds(bits); return [low, high, unit * tries]; })) tries += 1n;
  return tries % 2n === 1n;
}

const ratio = (numerator, denominator) => (bits) => [numerator << bits, numerator << bits, denominator];

// Discrete Laplace noise: P(y) ∝ exp(−|y|·top/bottom) (Canonne, Kamath, Steinke 2020, algorithm 2).
function laplace(top, bottom) {
  for (;;) {
    const rest = below(bottom);
    if (!exponential_coin(ratio(rest, bottom))) continue;
    let whole = 0n;
    while (exponential_coin(ratio(1n, 1n))) whole += 1n;
    const size = (rest + bottom * whole) / top;
    const minus = below(2n) === 1n;
    if (!minus || size > 0n) return minus ? -size : size;
  }
}
