// compile_error: 'm' undeclared
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<m;i++)C[i]=0;
}
