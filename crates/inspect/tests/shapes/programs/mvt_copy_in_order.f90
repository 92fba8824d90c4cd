! problem: polybench_mvt
! techniques: packing
subroutine mvt(n, x1, x2, y1, y2, A) bind(c, name="polybench_mvt")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(inout) :: x1(n), x2(n)
  real(c_double), intent(in) :: y1(n), y2(n), A(n, n)
  real(c_double), allocatable :: copy(:, :)
  integer :: i, j
  allocate (copy(n, n))
  do i = 1, n
    do j = 1, n
      copy(j, i) = A(j, i)
    end do
  end do
  do i = 1, n
    do j = 1, n
      x1(i) = x1(i) + copy(j, i) * y1(j)
    end do
  end do
  do i = 1, n
    do j = 1, n
      x2(i) = x2(i) + copy(i, j) * y2(j)
    end do
  end do
  deallocate (copy)
end subroutine mvt
