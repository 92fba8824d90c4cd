/* One sum for each element, in double precision, so that what is compared with is all but exact. */
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out)
{
    int row = w + k - 1;
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++)
                    sum += (double)weight[p * k + q] * in[(i + p) * row + j + q];
            out[i * w + j] = sum;
        }
}
