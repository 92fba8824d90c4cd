/* The baseline: sixteen sums at a time. It is correct for every size; it must never change, or old numbers lose their
   meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

void dot(int n, const double *x, const double *y, double *result)
{
    vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int whole = n - n % 16;
    for (int i = 0; i < whole; i += 16) {
        s0 += *(const vec *)&x[i] * *(const vec *)&y[i];
        s1 += *(const vec *)&x[i + 4] * *(const vec *)&y[i + 4];
        s2 += *(const vec *)&x[i + 8] * *(const vec *)&y[i + 8];
        s3 += *(const vec *)&x[i + 12] * *(const vec *)&y[i + 12];
    }
    vec s = (s0 + s1) + (s2 + s3);
    double sum = (s[0] + s[1]) + (s[2] + s[3]);
    for (int i = whole; i < n; i++)
        sum += x[i] * y[i];
    result[0] = sum;
}
