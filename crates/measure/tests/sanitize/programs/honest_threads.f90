! nothing: a reduction, a section that one thread passes at a time, and a workspace for each
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double) :: total, row(n)
  integer :: i, k, rows
  rows = 0
  total = 0
  !$omp parallel do private(k, row) reduction(+:total) schedule(dynamic)
  do i = 1, n
    row = 0
    do k = 1, n
      row = row + b(:, k) * a(k, i)
    end do
    c(:, i) = row
    total = total + row(1) * row(1)
    !$omp critical
    rows = rows + 1
    !$omp end critical
  end do
  !$omp end parallel do
  if (total < 0 .or. rows < n) c(1, 1) = 0
end subroutine
