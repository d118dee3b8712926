package sqldigest

// HeapObjects returns the sizes in bytes of what d holds on the heap besides itself, none of
// which has pointers; 0 for what it does not hold. It is for accounts of memory: the allocator
// rounds each size up. It does not allocate and reads a few words.
func (d *Digester) HeapObjects() [4]int {
	sizes := [4]int{cap(d.buf), cap(d.tags.text), cap(d.tags.scratch)}
	if d.hashed != nil {
		sizes[3] = hashState
	}
	return sizes
}

// hashState is the size of crypto/sha256's state in bytes: eight words of four, a block, the
// number of bytes seen, and what is in the block.
const hashState = 8*4 + 64 + 8 + 8
