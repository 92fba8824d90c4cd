// problem: stencil3d
// techniques: none
extern "C" void stencil3d(int d, int h, int w, const double *in, double *out) {
  for (int z = 0; z < d; ++z)
    for (int y = 0; y < h; ++y) {
      const bool outer = z == 0 || z == d - 1 || y == 0 || y == h - 1;
      for (int x = 0; x < w; ++x) {
        const int at = (z * h + y) * w + x;
        if (outer || x == 0 || x == w - 1) {
          out[at] = in[at];
        } else {
          out[at] = 0.25 * in[at] + 0.125 * (in[at - 1] + in[at + 1] + in[at - w] + in[at + w] + in[at - h * w] + in[at + h * w]);
        }
      }
    }
}
