package gateway_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A dialogue is a connection whose responses are delimited by the server rather than by this program's reading of
// the protocol: COM_STATISTICS follows each command, and its response is a packet like no other.
type dialogue struct {
	*mysqlconn.Client
	statement uint32 // of the last PREPARE
}

// A turn is a command and its response.
type turn struct {
	cmd     mysqlwire.Command
	flags   mysqlwire.ExecuteFlags
	packets [][]byte // with their headers
	fileAt  int      // bytes of the response before the client's file, if the server requested one
	fileSeq uint8    // sequence number after the file
}

func (t *turn) bytes() []byte { return bytes.Join(t.packets, nil) }

// offers returns the capabilities in the greeting of addr.
func offers(t *testing.T, addr string) mysqlwire.Capability {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	defer nc.Close()
	must(t, nc.SetDeadline(time.Now().Add(testwait.Limit)))
	p, err := mysqlconn.New(nc).ReadMessage(loginPacket)
	must(t, err)
	var h mysqlwire.Handshake
	must(t, h.Decode(p))
	return h.Capabilities
}

// openDialogue logs in with exactly the given capabilities.
func openDialogue(t *testing.T, addr string, caps mysqlwire.Capability) *dialogue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { nc.Close() })
	c, err := mysqlconn.LogIn(ctx, mysqlconn.New(nc), mysqlconn.Login{
		User: testmysql.RootUser, Password: testmysql.Password, Capabilities: caps, Charset: 45, MaxPacket: 1 << 30,
	})
	must(t, err)
	return &dialogue{Client: c}
}

// run performs a step: a verb and its argument.
func (d *dialogue) run(step string) (turn, error) {
	verb, arg, _ := strings.Cut(step, " ")
	var file [][]byte
	if verb == "file" {
		file = [][]byte{[]byte("1\n2\n"), []byte("3\n")}
		verb, arg, _ = strings.Cut(arg, " ")
	}
	var flags mysqlwire.ExecuteFlags
	var payload []byte
	switch verb {
	case "text":
		payload = mysqlwire.AppendQuery(nil, []byte(arg), d.Capabilities)
	case "prepare":
		payload = mysqlwire.StmtPrepare{SQL: []byte(arg)}.AppendTo(nil)
	case "execute": // the argument has the flags in hex, and the parameters' bytes
		var params []byte
		if arg != "" {
			b, err := strconv.ParseUint(arg[:2], 16, 8)
			if err != nil {
				return turn{}, err
			}
			flags, params = mysqlwire.ExecuteFlags(b), []byte(arg[2:])
		}
		payload = mysqlwire.StmtExecute{StatementID: d.statement, Flags: flags, Iterations: 1, Params: params}.AppendTo(nil)
	case "fetch":
		payload = binary.LittleEndian.AppendUint32(d.onStatement(mysqlwire.ComStmtFetch), 2)
	case "reset":
		payload = d.onStatement(mysqlwire.ComStmtReset)
	case "close":
		payload = d.onStatement(mysqlwire.ComStmtClose)
	case "long":
		payload = append(d.onStatement(mysqlwire.ComStmtSendLongData), 0, 0, 'x')
	case "bulk":
		payload = append(d.onStatement(mysqlwire.ComStmtBulkExecute), arg...)
	case "empty":
	case "command":
		b, err := strconv.ParseUint(arg[:2], 16, 8)
		if err != nil {
			return turn{}, err
		}
		payload = append([]byte{byte(b)}, strings.TrimPrefix(arg[2:], " ")...)
	default:
		return turn{}, fmt.Errorf("unknown verb %q", verb)
	}
	t, err := d.send(payload, file)
	t.flags = flags
	if t.cmd == mysqlwire.ComStmtPrepare && len(t.packets) > 0 {
		d.statement = 1 << 30 // none
		if p := t.packets[0][mysqlwire.HeaderLen:]; p[0] == mysqlwire.MarkOK {
			d.statement = binary.LittleEndian.Uint32(p[1:])
		}
	}
	return t, err
}

func (d *dialogue) onStatement(cmd mysqlwire.Command) []byte {
	return binary.LittleEndian.AppendUint32([]byte{byte(cmd)}, d.statement)
}

// send sends a command and reads its response. file, unless it is nil, is sent when the server requests one.
func (d *dialogue) send(payload []byte, file [][]byte) (t turn, err error) {
	if len(payload) > 0 {
		t.cmd = mysqlwire.Command(payload[0])
	}
	if err := d.SetDeadline(time.Now().Add(testwait.Limit)); err != nil {
		return t, err
	}
	b, _ := mysqlwire.AppendPacket(nil, payload, 0)
	end, _ := mysqlwire.AppendPacket(nil, []byte{byte(mysqlwire.ComStatistics)}, 0)
	if file == nil {
		b = append(b, end...)
	}
	if _, err := d.Write(b); err != nil {
		return t, err
	}
	for {
		p, err := d.readPacket()
		if err != nil {
			return t, err
		}
		body := p[mysqlwire.HeaderLen:]
		if p[3] == 1 && bytes.HasPrefix(body, []byte("Uptime: ")) {
			if t.cmd == mysqlwire.ComStatistics && len(t.packets) == 0 {
				t.packets = append(t.packets, []byte("\x06\x00\x00\x01Uptime")) // the rest are times and counts
				continue
			}
			return t, nil
		}
		t.packets = append(t.packets, p)
		if file == nil || len(body) == 0 {
			continue
		}
		switch body[0] {
		case mysqlwire.MarkLocalInfile:
			t.fileAt = len(t.bytes())
			var b []byte
			seq := p[3] + 1
			for _, part := range append(file, nil) {
				b, seq = mysqlwire.AppendPacket(b, part, seq)
			}
			t.fileSeq = seq
			if _, err := d.Write(append(b, end...)); err != nil {
				return t, err
			}
			file = nil
		case mysqlwire.MarkOK, mysqlwire.MarkErr: // no file is requested
			if _, err := d.Write(end); err != nil {
				return t, err
			}
			file = nil
		}
	}
}

// readPacket reads one packet with its header.
func (d *dialogue) readPacket() ([]byte, error) {
	if err := d.Need(mysqlwire.HeaderLen); err != nil {
		return nil, err
	}
	left := mysqlwire.HeaderLen + mysqlwire.ParseHeader(d.Buffered()).Len
	p := make([]byte, 0, left)
	for left > 0 {
		if err := d.Need(1); err != nil {
			return nil, err
		}
		k := min(left, len(d.Buffered()))
		p = append(p, d.Buffered()[:k]...)
		d.Discard(k)
		left -= k
	}
	return p, nil
}
