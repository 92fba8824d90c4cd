// forbidden_technique/loop_reorder: line 2: the technique `simd`
typedef double V __attribute__((vector_size(32)));
void dgemm(int n,const double*A,const double*B,double*C){*(V*)C=*(V*)A;}
