! problem: polybench_mvt
! techniques: packing+layout_change
subroutine mvt(n, x1, x2, y1, y2, A) bind(c, name="polybench_mvt")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(inout) :: x1(n), x2(n)
  real(c_double), intent(in) :: y1(n), y2(n), A(n, n)
  real(c_double), allocatable :: turned(:, :)
  integer :: i, j
  allocate (turned(n, n))
  do i = 1, n
    do j = 1, n
      turned(i, j) = A(j, i)
    end do
  end do
  do i = 1, n
    do j = 1, n
      x1(i) = x1(i) + A(j, i) * y1(j)
    end do
  end do
  do i = 1, n
    do j = 1, n
      x2(i) = x2(i) + turned(j, i) * y2(j)
    end do
  end do
  deallocate (turned)
end subroutine mvt
