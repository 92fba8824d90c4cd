/* The baseline: a bitonic network of comparisons for sixteen arrays at once, each in a column of its own. It is correct
   for every size; it must never change, or old numbers lose their meaning. */
static inline void order(int *restrict a, int *restrict b)
{
    for (int c = 0; c < 16; c++) {
        int p = a[c], q = b[c];
        a[c] = p < q ? p : q;
        b[c] = p < q ? q : p;
    }
}

static void sort_columns(int x[64][16])
{
    for (int run = 2; run <= 64; run *= 2) {
        /* Two sorted halves become one sorted run: the second one is met backwards. */
        for (int base = 0; base < 64; base += run)
            for (int i = 0; i < run / 2; i++)
                order(x[base + i], x[base + run - 1 - i]);
        for (int gap = run / 4; gap > 0; gap /= 2)
            for (int base = 0; base < 64; base += 2 * gap)
                for (int i = base; i < base + gap; i++)
                    order(x[i], x[i + gap]);
    }
}

void sort64(int batch, const int *in, int *out)
{
    int x[64][16] __attribute__((aligned(64)));
    for (int b = 0; b < batch; b += 16) {
        /* Arrays that are not there are copies of the last one and not stored. */
        for (int c = 0; c < 16; c++) {
            int from = b + c < batch ? b + c : batch - 1;
            for (int i = 0; i < 64; i++)
                x[i][c] = in[from * 64 + i];
        }
        sort_columns(x);
        for (int c = 0; c < 16 && b + c < batch; c++)
            for (int i = 0; i < 64; i++)
                out[(b + c) * 64 + i] = x[i][c];
    }
}
