// Places: noise on the cells of a grid, P(displacement) ∝ exp(−rate·√(x² + y²)), exactly.

// By rejection: 7/10 of the rate on each axis, kept with probability e^−γ, γ = rate·(√(x² + y²) − 7/10·(|x| + |y|)),
// which is never negative, since |x| + |y| ≤ √2·√(x² + y²) and 7/10·√2 < 1. Parts of γ that are at most 1, one by one.
function planar_noise() {
  const [n, d] = channel.rate.map(BigInt);
  for (;;) {
    const x = laplace(7n * n, 10n * d);
    const y = laplace(7n * n, 10n * d);
    const square = 100n * (x * x + y * y);
    const ends = 7n * ((x < 0n ? -x : x) + (y < 0n ? -y : y));
    const gamma = (bits) => {
      const low = root(square << (2n * bits)) - (ends << bits);
      return [n * low, n * (low + 1n), 10n * d];
    };
    const parts = gamma(0n)[1] / (10n * d) + 1n;
    const part = (bits) => { const [low, high, unit] = gamma(bits); return [low, high, unit * parts]; };
    let kept = true;
    for (let done = 0n; kept && done < parts; done += 1n) kept = exponential_coin(part);
    if (kept) return [x, y];
  }
}

// A cell of the area with a margin, row by row from the south-west, or, by the last code, further away.
const planar = {
  randomise(value) {
    const [x, y] = planar_noise();
    const width = channel.columns + 2 * channel.margin;
    const height = channel.rows + 2 * channel.margin;
    const column = BigInt(value % channel.columns + channel.margin) + x;
    const row = BigInt(Math.floor(value / channel.columns) + channel.margin) + y;
    const outside = column < 0n || row < 0n || column >= width || row >= height;
    return outside ? width * height : Number(row) * width + Number(column);
  },
  fits: () => false,
};

// Where a cell is, in km from the south-west corner of the area.
function corner(report) {
  const width = channel.columns + 2 * channel.margin;
  if (report === width * (channel.rows + 2 * channel.margin)) return null;
  return [report % width, Math.floor(report / width)].map((steps) => (steps + 0.5 - channel.margin) * survey.area.cell);
}

// From latitude and longitude (or km) to a cell: the transverse Mercator projection of the Python code (Karney 2011).
function mercator(latitude, east) {
  const { radius, eccentricity, alpha } = survey.area.map;
  const angle = ((((east + 180) % 360) + 360) % 360 - 180) * (Math.PI / 180);
  const sine = Math.sin(latitude * (Math.PI / 180));
  const conformal = Math.sinh(Math.atanh(sine) - eccentricity * Math.atanh(eccentricity * sine));
  const xi = Math.atan2(conformal, Math.cos(angle));
  const eta = Math.asinh(Math.sin(angle) / Math.hypot(conformal, Math.cos(angle)));
  const sum = (one, other) => alpha.reduce((total, a, j) => total + a * one(2 * (j + 1) * xi) * other(2 * (j + 1) * eta), 0);
  return [radius * (eta + sum(Math.cos, Math.sinh)), radius * (xi + sum(Math.sin, Math.cosh))];
}

function far_apart(latitude, longitude, [other, meridian]) {
  const half = (degrees) => Math.sin(degrees * (Math.PI / 360)) ** 2;
  const flat = Math.cos(latitude * (Math.PI / 180)) * Math.cos(other * (Math.PI / 180)) * half(longitude - meridian);
  return 2 * 6371 * Math.asin(Math.sqrt(Math.min(1, half(latitude - other) + flat)));
}

// The cell of a place; outside the area, the nearest; null for what is no place or too far away.
function cell_of(first, second) {
  const { centre, factor, clamped, columns, rows, up, down } = survey.area;
  if (!Number.isFinite(first) || !Number.isFinite(second)) return null;
  let [x, y] = [first, second];
  if (centre) {
    if (Math.abs(first) > 90 || Math.abs(second) > 180 || far_apart(first, second, centre) > 2 * clamped) return null;
    const origin = mercator(centre[0], 0);
    const moved = mercator(first, second - centre[1]);
    const away = [moved[0] * factor, (moved[1] - origin[1]) * factor];
    if (Math.hypot(...away) > clamped) return null;
    [x, y] = [away[0] + survey.area.width / 2, away[1] + survey.area.height / 2];
  }
  const within = (km, most) => Math.min(Math.max(Math.floor((km * up) / down), 0), most - 1);
  return within(y, rows) * columns + within(x, columns);
}
