package sharedcache

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"

	"github.com/taredb/tare/internal/store/diskcache"
)

// PageSize is the length of a page in bytes. Only the last page of an object is shorter.
const PageSize = diskcache.PageSize

// A Bucket identifies the bucket of the objects in the keys.
type Bucket [16]byte

const (
	headerSize = 64
	valueSize  = headerSize + PageSize
	keyPrefix  = "tare1:" // with the version of keys and values
	valueMagic = "tpg1"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendKey appends the key of a page to b.
func (c *Cache) appendKey(b []byte, o diskcache.Object, page uint32) []byte {
	var identity [48]byte
	o.AppendTo(append(identity[:0], c.options.Bucket[:]...))
	b = append(b, keyPrefix...)
	b = base64.RawURLEncoding.AppendEncode(b, identity[:])
	b = strconv.AppendUint(append(b, ':'), uint64(page), 10)
	return strconv.AppendUint(append(b, ':'), PageSize, 10)
}

// putHeader writes the header of a page to the start of value, except the checksum.
func (c *Cache) putHeader(value []byte, o diskcache.Object, page uint32, length int) {
	copy(value[4:], valueMagic)
	binary.LittleEndian.PutUint32(value[8:], uint32(length))
	binary.LittleEndian.PutUint32(value[12:], page)
	copy(value[16:], c.options.Bucket[:])
	o.AppendTo(value[:32])
}

// encode writes header and data to value and returns the part used.
func (c *Cache) encode(value *[valueSize]byte, o diskcache.Object, page uint32, data []byte) []byte {
	c.putHeader(value[:headerSize], o, page, len(data))
	n := headerSize + copy(value[headerSize:], data)
	binary.LittleEndian.PutUint32(value[:], crc32.Checksum(value[4:n], castagnoli))
	return value[:n]
}

// decode returns the page in a value. It returns false if the value is not an undamaged one of the page.
func (c *Cache) decode(value []byte, o diskcache.Object, page uint32) (data []byte, ok bool) {
	if len(value) < headerSize || len(value) > valueSize {
		return nil, false
	}
	var want [headerSize]byte
	c.putHeader(want[:], o, page, len(value)-headerSize)
	if !bytes.Equal(value[4:headerSize], want[4:]) {
		return nil, false
	}
	if crc32.Checksum(value[4:], castagnoli) != binary.LittleEndian.Uint32(value) {
		return nil, false
	}
	return value[headerSize:], true
}

// pick returns the server of a page: the one with the highest score. Another list of servers moves only the
// pages of added and removed ones.
func (c *Cache) pick(o diskcache.Object, page uint32) *server {
	var id [32]byte
	o.AppendTo(id[:0])
	h := binary.LittleEndian.Uint64(id[16:]) + uint64(page/batchPages)*0x9E3779B97F4A7C15
	var best *server
	var highest uint64
	for _, s := range c.servers {
		if score := mix(h ^ s.seed); best == nil || score > highest {
			best, highest = s, score
		}
	}
	return best
}

// mix is the finalizer of SplitMix64.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}
