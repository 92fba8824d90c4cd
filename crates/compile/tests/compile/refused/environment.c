// forbidden_symbol: `environ` is neither defined
extern char**environ;
void dgemm(int n,const double*A,const double*B,double*C){C[0]=environ[0][0];}
