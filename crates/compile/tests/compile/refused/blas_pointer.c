// forbidden_symbol: `cblas_dgemm` is neither defined
extern char cblas_dgemm;
void dgemm(int n,const double*A,const double*B,double*C){((void(*)(int))&cblas_dgemm)(n);}
