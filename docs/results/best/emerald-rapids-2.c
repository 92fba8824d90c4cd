typedef double V __attribute__((vector_size(64),aligned(8)));
#define W 8
#define R 8
#define S 2
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n;i+=R){
  for(int j=0;j<n;j+=S*W){
   V c[R][S]={0};
#pragma GCC unroll 8
   for(int k=0;k<n;k++){
    __builtin_prefetch(&B[k*n+j]);
    for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+=A[(i+r)*n+k]**(V*)&B[k*n+j+s*W];
   }
   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]=c[r][s];
  }
 }
}
