/* The baseline: four columns of the solved part at a time in two vectors of partial sums. It is correct for every size;
   it must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

void polybench_trisolv(int n, const double *L, const double *b, double *x)
{
    for (int i = 0; i < n; i++) {
        const double *l = &L[i * n];
        vec s0 = {0}, s1 = {0};
        int j = 0;
        for (; j + 8 <= i; j += 8) {
            s0 += *(const vec *)&l[j] * *(const vec *)&x[j];
            s1 += *(const vec *)&l[j + 4] * *(const vec *)&x[j + 4];
        }
        s0 += s1;
        double sum = (s0[0] + s0[1]) + (s0[2] + s0[3]);
        for (; j < i; j++)
            sum += l[j] * x[j];
        x[i] = (b[i] - sum) / l[i];
    }
}
