// verified: wrong_result
void axpby(int n, double alpha, const double *x, float beta, double *y) {
}
