package lookup

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageSize is what mapped memory is counted in.
const pageSize = 4096

// hugePage is what segments are as large as, or a whole part of: a reader of one that
// lies in a huge page saves a walk through the page tables.
const hugePage = 2 << 20

// mapMemory gives n bytes of zeroes that the Go runtime knows nothing of.
func mapMemory(n int) ([]byte, error) {
	spare := uintptr(0)
	if n%hugePage == 0 {
		spare = hugePage // to begin at a multiple
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(n)+spare, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if spare > 0 {
		before := -uintptr(base) % hugePage
		if err := trim(base, before); err == nil {
			base = unsafe.Add(base, before)
			spare -= before
		}
		if err := trim(unsafe.Add(base, n), spare); err != nil {
			return nil, err
		}
	}
	mem := unsafe.Slice((*byte)(base), n)
	preferHuge(mem) // what lies beside other such memory may share a page with it
	return mem, nil
}

func trim(base unsafe.Pointer, n uintptr) error {
	if n == 0 {
		return nil
	}
	return os.NewSyscallError("munmap", unix.MunmapPtr(base, n))
}

// unmapMemory gives back what mapMemory gave. Nobody may look at it any more.
func unmapMemory(mem []byte) error {
	return trim(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}

// words looks at mapped memory, which begins at a page, as numbers.
func words(mem []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/8)
}

// claim maps n bytes, rounded up to pages, within the budget; nil: there is no room.
func (t *Table) claim(n int) []byte {
	n = (n + pageSize - 1) / pageSize * pageSize
	if !t.budget.take(int64(n), t.leave) {
		return nil
	}
	mem, err := mapMemory(n)
	if err != nil { // the machine has less than the budget
		t.budget.give(int64(n))
		t.unmapped.Add(1)
		return nil
	}
	t.mapped.Add(int64(n))
	return mem
}

// release unmaps what claim gave.
func (t *Table) release(mem []byte) {
	if mem == nil {
		return
	}
	n := int64(len(mem))
	if err := unmapMemory(mem); err != nil {
		t.unmapped.Add(1) // it stays mapped, and counted
		return
	}
	t.mapped.Add(-n)
	t.budget.give(n)
}
