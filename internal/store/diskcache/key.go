package diskcache

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// PageSize is the length of a page in bytes. Only the last page of an object is shorter.
const PageSize = 16 << 10

// A Block identifies a group of objects that are removed together. It is a hash of the group's name.
type Block [16]byte

// BlockOf returns the identity of the block with the given name: the prefix of its objects in the bucket, with
// its tenant and ULID.
func BlockOf(name string) Block {
	sum := sha256.Sum256([]byte(name))
	return Block(sum[:16])
}

// An Object identifies an object of a block. It has the same value in all processes.
type Object struct {
	block Block
	file  [16]byte
}

// Object returns the identity of one of the block's files. version distinguishes contents of the block, such as
// by the size of its index.
func (b Block) Object(version int64, file string) Object {
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, 96), uint64(version))
	text = append(text, b[:]...)
	sum := sha256.Sum256(append(text, file...))
	return Object{block: b, file: [16]byte(sum[:16])}
}

// AppendTo appends the identity to b: 16 bytes of the block and 16 of the file.
func (o *Object) AppendTo(b []byte) []byte { return append(append(b, o.block[:]...), o.file[:]...) }

// hash returns the hash of a page of the object.
func (o *Object) hash(page uint32) uint64 {
	h := binary.LittleEndian.Uint64(o.file[:]) ^ binary.LittleEndian.Uint64(o.file[8:])*(2*uint64(page)+1)
	h ^= h >> 32
	h *= 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// A tag is the part of a key that is in memory: 32 bits of its block, and 32 of the page. 0 means no page.
type tag uint64

func (b *Block) tag() uint32 { return binary.LittleEndian.Uint32(b[:]) }

func (t tag) block() uint32 { return uint32(t >> 32) }

// locate returns the set of a page, of the given number of sets, and its tag.
func (o *Object) locate(page uint32, sets uint64) (set uint64, t tag) {
	h := o.hash(page)
	set, _ = bits.Mul64(h, sets)
	return set, tag(uint64(o.block.tag())<<32 | uint64(uint32(h)|1))
}
