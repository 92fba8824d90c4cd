// forbidden_symbol: line 2: `cblas_dgemm`
void cblas_dgemm(int,int,int,int,int,int,double,const double*,int,const double*,int,double,double*,int);
void dgemm(int n,const double*A,const double*B,double*C){cblas_dgemm(101,111,111,n,n,n,1,A,n,B,n,0,C,n);}
