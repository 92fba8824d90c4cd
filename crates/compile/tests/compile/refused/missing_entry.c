// missing_entry: does not define the function `dgemm`
void dgemn(int n,const double*A,const double*B,double*C){}
