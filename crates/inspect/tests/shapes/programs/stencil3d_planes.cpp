// problem: stencil3d
// techniques: cache_blocking+openmp+branch_removal
#include <algorithm>
extern "C" void stencil3d(int d, int h, int w, const double *in, double *out) {
  auto at = [=](int z, int y, int x) { return (z * h + y) * w + x; };
  auto inner = [&](int z, int from, int to) {
    for (int y = from; y < to; y++)
      for (int x = 0; x < w; x++) {
        const double *u = in + at(z, y, x);
        const bool edge = z == 0 || z == d - 1 || y == 0 || y == h - 1 || x == 0 || x == w - 1;
        out[at(z, y, x)] = edge ? u[0] : 0.25 * u[0] + 0.125 * (u[-1] + u[1] + u[-w] + u[w] + u[-h * w] + u[h * w]);
      }
  };
#pragma omp parallel for
  for (int y = 0; y < h; y += 24)
    for (int z = 0; z < d; z++) inner(z, y, std::min(y + 24, h));
}
