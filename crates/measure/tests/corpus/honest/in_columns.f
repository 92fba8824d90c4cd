! honest: fixed form, with labels, continued lines and comments of both kinds
      SUBROUTINE DGEMM(N, A, B, C) BIND(C, NAME='dgemm')
      USE ISO_C_BINDING
      IMPLICIT NONE
      INTEGER(C_INT), VALUE :: N
      REAL(C_DOUBLE) A(N,N), B(N,N), C(N,N), S
      INTEGER I, J, K
C     Columns of C are rows of the caller's.
      DO 30 I = 1, N
        DO 20 J = 1, N
          S = 0
          DO 10 K = 1, N
            S = S
     &        + B(J,K) * A(K,I)
   10     CONTINUE
          C(J,I) = S
   20   CONTINUE
   30 CONTINUE
      RETURN
      END
