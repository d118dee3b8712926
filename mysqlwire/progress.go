package mysqlwire

import "encoding/binary"

// A Progress tells a client of MariaDB, which has asked for it by CapMariaProgress, how far
// a long statement is. It looks like an ERR with error number 0xFFFF and may come before
// any packet of a response; it ends nothing.
//
// Specification: MariaDB "ERR_Packet" (error code 0xFFFF), "Progress Reporting".
type Progress struct {
	Strings  uint8 // number of strings that follow; servers send 1
	Stage    uint8 // from 1
	MaxStage uint8
	Percent  uint32 // thousandths of a percent of the stage, 24 bits
	Info     []byte // what the server is doing; a view of the payload
}

// IsProgress reports whether payload is a progress report rather than an ERR.
func IsProgress(payload []byte) bool {
	return len(payload) >= 3 && payload[0] == MarkErr &&
		binary.LittleEndian.Uint16(payload[1:]) == errnoProgress
}

// Decode reads a progress report. It does not allocate.
func (p *Progress) Decode(payload []byte) error {
	const what = "progress report"
	*p = Progress{}
	c, err := open(payload, MarkErr, what)
	if err != nil {
		return err
	}
	if number := c.u16(); !c.short && number != errnoProgress {
		return malformed(what, "it is an error")
	}
	p.Strings = c.u8()
	p.Stage = c.u8()
	p.MaxStage = c.u8()
	p.Percent = c.u24()
	p.Info = c.lenencBytes()
	return c.done(what)
}

// AppendTo appends the payload of p. It does not allocate when dst has room.
func (p Progress) AppendTo(dst []byte) []byte {
	dst = append(dst, MarkErr, 0xFF, 0xFF, p.Strings, p.Stage, p.MaxStage)
	return AppendLenencString(appendU24(dst, p.Percent), p.Info)
}
