c problem: dgemv
c techniques: loop_reorder+unroll
      SUBROUTINE DGEMV(M, N, A, X, Y) BIND(C, NAME="dgemv")
      USE ISO_C_BINDING
      INTEGER(C_INT), VALUE :: M, N
      REAL(C_DOUBLE) A(N, M), X(N), Y(M)
      INTEGER I, J
      DO 10 I = 1, M
   10 Y(I) = 0
      DO 30 J = 1, N - 1, 2
        DO 20 I = 1, M
          Y(I) = Y(I) + A(J, I) * X(J) + A(J + 1, I)
     &      * X(J + 1)
   20   CONTINUE
   30 CONTINUE
      IF (MOD(N, 2) .EQ. 1) THEN
        DO 40 I = 1, M
   40   Y(I) = Y(I) + A(N, I) * X(N)
      END IF
      END
