// missing_entry: dgemm
#define dgemm other
void dgemm(int n,const double*A,const double*B,double*C){C[0]=1;}
