! data race
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, k, rows
  rows = 0
  !$omp parallel do private(k) shared(rows)
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      c(:, i) = c(:, i) + b(:, k) * a(k, i)
    end do
    rows = rows + 1
  end do
  !$omp end parallel do
  if (rows < 0) c(1, 1) = 0
end subroutine
