package binlog

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// Fields of MySQL's event of a compressed transaction, and its compression methods.
const (
	payloadEnd       = 0
	payloadSize      = 1
	payloadMethod    = 2
	payloadInflated  = 3
	payloadZstd      = 0
	payloadPlainText = 255
)

// An unpacker decompresses MySQL's transactions, with reused memory.
type unpacker struct {
	zstd *zstd.Decoder
	out  []byte
}

// unpack returns the events of a transaction, valid until the next call. They have no checksums.
//
// Specification: MySQL "Transaction_payload_event".
func (u *unpacker) unpack(b []byte) (_ []byte, err error) {
	method := uint64(payloadPlainText)
	for {
		field, n := mysqlwire.LenencInt(b)
		if n == 0 {
			return nil, errShortEvent
		}
		b = b[n:]
		if field == payloadEnd {
			break
		}
		value, n := mysqlwire.LenencString(b)
		if n == 0 {
			return nil, errShortEvent
		}
		b = b[n:]
		v, n := mysqlwire.LenencInt(value)
		if n == 0 {
			return nil, errShortEvent
		}
		switch field {
		case payloadMethod:
			method = v
		case payloadInflated:
			if v > maxInflated {
				return nil, fmt.Errorf("a transaction of %d bytes in one event", v)
			}
		}
	}
	switch method {
	case payloadPlainText:
		return b, nil
	case payloadZstd:
	default:
		return nil, errInflate
	}
	if u.zstd == nil {
		if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxInflated)); err != nil {
			return nil, err
		}
	}
	if cap(u.out) > DefaultFollowBytes {
		u.out = nil
	}
	u.out, err = u.zstd.DecodeAll(b, u.out[:0])
	return u.out, err
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// payload processes a compressed transaction.
func (r *logReader) payload(outer *event) error {
	b, err := r.unpack.unpack(outer.body)
	if err != nil {
		return r.unknown("a compressed transaction", err)
	}
	for len(b) > 0 {
		var e event
		if len(b) < eventHeaderLen {
			return r.unknown("a compressed transaction", errShortEvent)
		}
		size := littleEndian(b[9:13])
		if size > uint64(len(b)) || size < eventHeaderLen {
			return r.unknown("a compressed transaction", errShortEvent)
		}
		if err := e.decode(b[:size], false); err != nil {
			return r.unknown("a compressed transaction", err)
		}
		b = b[size:]
		if e.kind == eventPayload {
			return r.unknown("a compressed transaction", errors.New("there is another one in it"))
		}
		if err := r.event(&e); err != nil {
			return err
		}
	}
	return nil
}
