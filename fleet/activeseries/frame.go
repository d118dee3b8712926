package activeseries

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// A frame is the positive length of an item in bytes as a uvarint, followed by the item, a JSON object. A
// length of 0 starts a record, of which there is one, at the end, and only in FormFramedEnd:
//
//	00 01  uvarint items  uint32 checksum    the end: number of items, CRC-32C of all bytes before 00,
//	                                         in little-endian order
//	00 02  uvarint length  text              the end after an error, in UTF-8
const (
	recordEnd   = 1
	recordError = 2
)

// frameSum counts the frames of a response and computes their checksum.
type frameSum struct {
	on    bool
	items int64
	crc   uint32
	table *crc32.Table
}

func (s *frameSum) add(frames []byte, items int64) {
	if !s.on {
		return
	}
	if s.table == nil {
		s.table = crc32.MakeTable(crc32.Castagnoli)
	}
	s.crc = crc32.Update(s.crc, s.table, frames)
	s.items += items
}

// AppendFrames appends the items of a Decoder's list as frames. It does not allocate if dst has room.
func AppendFrames(dst, list []byte) []byte {
	for item := range Items(list) {
		dst = binary.AppendUvarint(dst, uint64(len(item)))
		dst = append(dst, item...)
	}
	return dst
}

// appendEnd appends the record that ends the response, if form has one.
func (s *frameSum) appendEnd(dst []byte, form Form, fault error) []byte {
	if form != FormFramedEnd {
		return dst
	}
	if fault != nil {
		text := brief(strings.ToValidUTF8(fault.Error(), "\ufffd"), MaxErrorText)
		dst = append(dst, 0, recordError)
		dst = binary.AppendUvarint(dst, uint64(len(text)))
		return append(dst, text...)
	}
	dst = append(dst, 0, recordEnd)
	dst = binary.AppendUvarint(dst, uint64(s.items))
	return binary.LittleEndian.AppendUint32(dst, s.crc)
}
