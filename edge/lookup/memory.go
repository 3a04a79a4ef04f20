package lookup

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Budget bounds the memory that the tables which share it map together, in bytes.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of that many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Limit returns the bytes that may be mapped.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns the bytes that are mapped now.
func (b *Budget) Used() int64 { return b.used.Load() }

// claimBytes claims n bytes, unless fewer than leave would then be left.
func (b *Budget) claimBytes(n, leave int64) bool {
	if b.used.Add(n) > b.limit-leave {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) give(n int64) { b.used.Add(-n) }

// memory maps memory within a budget.
type memory struct {
	budget  *Budget
	leave   int64        // bytes of the budget that are left to others; owned by the writer
	gradual bool         // see Config; owned by the writer
	mapped  atomic.Int64 // bytes
}

// pageSize is the unit of mapped memory.
const pageSize = 4096

// hugePage is the size of the largest segments, and a multiple of the size of smaller
// ones. A reader of a segment in a huge page saves a walk through the page tables.
const hugePage = 2 << 20

// mapMemory returns n bytes of zeroes that are unknown to the Go runtime.
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
	return unsafe.Slice((*byte)(base), n), nil
}

func trim(base unsafe.Pointer, n uintptr) error {
	if n == 0 {
		return nil
	}
	return os.NewSyscallError("munmap", unix.MunmapPtr(base, n))
}

// unmapMemory unmaps memory of mapMemory after its last reader has left.
func unmapMemory(mem []byte) error {
	return trim(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}

// words returns mapped memory, which begins at a page, as numbers.
func words(mem []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/8)
}

// claim maps n bytes, rounded up to pages, within the budget; nil: there is no room.
func (m *memory) claim(n int) []byte {
	n = (n + pageSize - 1) / pageSize * pageSize
	if !m.budget.claimBytes(int64(n), m.leave) {
		return nil
	}
	mem, err := mapMemory(n)
	if err != nil { // the machine has less than the budget
		m.budget.give(int64(n))
		return nil
	}
	m.mapped.Add(int64(n))
	if !m.gradual {
		preferHuge(mem) // neighbours may share a page
	}
	return mem
}

// release unmaps memory of claim.
func (m *memory) release(mem []byte) {
	if mem == nil {
		return
	}
	n := int64(len(mem))
	if err := unmapMemory(mem); err != nil {
		return // it stays mapped, and counted
	}
	m.mapped.Add(-n)
	m.budget.give(n)
}
