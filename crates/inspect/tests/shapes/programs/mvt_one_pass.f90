! problem: polybench_mvt
! techniques: loop_reorder+fusion
subroutine mvt(n, x1, x2, y1, y2, A) bind(c, name="polybench_mvt")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(inout) :: x1(n), x2(n)
  real(c_double), intent(in) :: y1(n), y2(n), A(n, n)
  integer :: i, j
  do i = 1, n
    do j = 1, n
      x1(i) = x1(i) + A(j, i) * y1(j)
      x2(j) = x2(j) + A(j, i) * y2(i)
    end do
  end do
end subroutine mvt
