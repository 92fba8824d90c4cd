// forbidden_construct: the attribute `alias`
void g(void){}
void h(void) __attribute__((alias("g")));
void dgemm(int n,const double*A,const double*B,double*C){}
