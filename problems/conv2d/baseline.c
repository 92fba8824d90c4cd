/* The baseline: 64 columns of a row at a time in registers. It is correct for every size; it must never change, or old
   numbers lose their meaning. */
typedef float vec __attribute__((vector_size(32), aligned(4)));

void conv2d(int h, int w, int k, const float *in, const float *weight, float *out)
{
    int row = w + k - 1;
    for (int i = 0; i < h; i++) {
        int j = 0;
        for (; j + 64 <= w; j += 64) {
            vec s[8] = {{0}};
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++) {
                    const float *x = &in[(i + p) * row + j + q];
                    float f = weight[p * k + q];
                    for (int v = 0; v < 8; v++)
                        s[v] += f * *(const vec *)&x[8 * v];
                }
            for (int v = 0; v < 8; v++)
                *(vec *)&out[i * w + j + 8 * v] = s[v];
        }
        for (; j + 8 <= w; j += 8) {
            vec s = {0};
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++)
                    s += weight[p * k + q] * *(const vec *)&in[(i + p) * row + j + q];
            *(vec *)&out[i * w + j] = s;
        }
        for (; j < w; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++)
                    sum += weight[p * k + q] * in[(i + p) * row + j + q];
            out[i * w + j] = sum;
        }
    }
}
