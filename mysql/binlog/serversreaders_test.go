package binlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	flagLogs    = flag.String("binlog.dir", "", "directory of log files, compared by TestServersReaders")
	flagProgram = flag.String("binlog.program", "", "the server's program that prints them: mariadb-binlog, mysqlbinlog")
	flagReport  = flag.String("binlog.report", "", "file to which the counts are written as JSON")
)

// readersReport counts what was compared.
type readersReport struct {
	Files       int            `json:"files"`
	Events      int            `json:"events"`      // by their headers
	RowEvents   int            `json:"row_events"`  // whose rows were compared whole
	Rows        int            `json:"rows"`        // images: two of an update
	Values      int            `json:"values"`      // of them
	Unprinted   int            `json:"unprinted"`   // row events that the server's program does not print to the end
	Kinds       map[string]int `json:"kinds"`       // events by type
	Stops       map[string]int `json:"stops"`       // where a follower stops, by reason
	Differences []string       `json:"differences"` // the first of each file
}

// TestServersReaders decodes log files, and compares with the output of the server's own program: each event's type
// and end, and each row's table, columns and values, byte by byte. The values are rendered in the program's form
// (serversprint_test.go). Every event is read by a logReader too, which must know its type.
func TestServersReaders(t *testing.T) {
	if *flagLogs == "" {
		t.Skip("-binlog.dir is not given")
	}
	files, err := filepath.Glob(filepath.Join(*flagLogs, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find log files in %s: %d, %v", *flagLogs, len(files), err)
	}
	report := &readersReport{Kinds: map[string]int{}, Stops: map[string]int{}}
	for _, path := range files {
		report.Files++
		if err := report.compare(path, strings.Contains(filepath.Base(*flagProgram), "mariadb")); err != nil {
			report.Differences = append(report.Differences, fmt.Sprintf("%s: %v", filepath.Base(path), err))
			t.Errorf("%s: %v", path, err)
		}
	}
	text, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if *flagReport != "" {
		if err := os.WriteFile(*flagReport, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s", text)
}

// compare compares one file.
func (r *readersReport) compare(path string, maria bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(*flagProgram, "--no-defaults", "-vv", "--base64-output=decode-rows", "--force-if-open", "--verify-binlog-checksum", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	printed, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = r.compareTo(file, maria, printed)
	_, _ = io.Copy(io.Discard, printed) // after a difference
	if waitErr := cmd.Wait(); err == nil && waitErr != nil {
		return fmt.Errorf("%w: %s", waitErr, stderr.Bytes())
	}
	return err
}

// compareTo compares a file with the program's output for it.
func (r *readersReport) compareTo(file io.Reader, maria bool, printed io.Reader) error {
	out, in := io.Pipe()
	p := &logPrinter{report: r, maria: maria, rows: bufio.NewWriterSize(in, 1<<16), maps: map[uint64]*printedTable{}}
	decoded := make(chan error, 1)
	go func() {
		err := p.file(bufio.NewReaderSize(file, 1<<16))
		decoded <- errors.Join(err, p.rows.Flush(), in.Close())
	}()
	headers, diff := compareRows(bufio.NewReaderSize(printed, 1<<16), bufio.NewReaderSize(out, 1<<16))
	_, _ = io.Copy(io.Discard, out) // after a difference
	if err := errors.Join(<-decoded, diff); err != nil {
		return err
	}
	return compareHeaders(headers, p.headers)
}

// TestPrintedLogs repeats TestServersReaders with small logs of tables of all types. Of the programs' output, the lines of
// events and rows are kept.
func TestPrintedLogs(t *testing.T) {
	for _, name := range []string{"mariadb-10.11", "mariadb-11.8", "mysql-9.7"} {
		log, err := os.Open(filepath.Join("testdata", "printed", name+".binlog"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		packed, err := os.Open(filepath.Join("testdata", "printed", name+".txt.gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		printed, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		report := &readersReport{Kinds: map[string]int{}, Stops: map[string]int{}}
		if err := report.compareTo(log, strings.HasPrefix(name, "mariadb"), printed); err != nil || report.RowEvents < 25 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}

// A printedHeader is an event's line of type and end.
type printedHeader struct {
	end  uint32
	text string // from the name of the type on; of ours, all or its beginning
}

var headerLine = regexp.MustCompile(`^#\d{6} +\d+:\d\d:\d\d server id \d+  end_log_pos (\d+) (?:CRC32 0x[0-9a-f]{8} )?\t(.*)\n$`)

// compareRows compares the lines of rows, and returns the lines of events.
func compareRows(theirs, ours *bufio.Reader) (headers []printedHeader, err error) {
	var line, want []byte
	near := ""
	for n := 1; ; n++ {
		if line, err = readLine(theirs, line[:0]); err != nil {
			break
		}
		if bytes.HasPrefix(line, []byte("#")) && !bytes.HasPrefix(line, []byte("###")) {
			if m := headerLine.FindSubmatch(line); m != nil {
				var h printedHeader
				if _, err := fmt.Sscan(string(m[1]), &h.end); err != nil {
					return nil, err
				}
				h.text = string(m[2])
				headers = append(headers, h)
				near = string(line)
			}
			continue
		}
		if !bytes.HasPrefix(line, []byte("### ")) {
			continue
		}
		if want, err = readLine(ours, want[:0]); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if matchWildcard(line, want) {
			continue
		}
		if !bytes.Equal(line, want) {
			return nil, fmt.Errorf("line %d, after %s\ttheirs %.400q\n\tours   %.400q", n, near, line, want)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if want, err = readLine(ours, want[:0]); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("they print no more rows, here are more: %.400q, %w", want, err)
	}
	return headers, nil
}

// partialValue ends our line of a value of which the log has the difference to the old one.
const partialValue = "=partial\n"

// matchWildcard reports whether their line is of the column of our line with partialValue.
func matchWildcard(line, want []byte) bool {
	column, ok := bytes.CutSuffix(want, []byte(partialValue))
	return ok && bytes.HasPrefix(line, append(column, '='))
}

// readLine reads a line of any length.
func readLine(r *bufio.Reader, dst []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		dst = append(dst, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF && len(dst) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return dst, err
		}
	}
}

func compareHeaders(theirs, ours []printedHeader) error {
	for i := range max(len(theirs), len(ours)) {
		var a, b printedHeader
		if i < len(theirs) {
			a = theirs[i]
		}
		if i < len(ours) {
			b = ours[i]
		}
		if a.end != b.end || !strings.HasPrefix(a.text, b.text) || b.text == "" {
			return fmt.Errorf("event %d: theirs %d %q, ours %d %q", i, a.end, a.text, b.end, b.text)
		}
	}
	return nil
}

// A logPrinter renders the events of a log file as the server's program does.
type logPrinter struct {
	report  *readersReport
	maria   bool // in the form of MariaDB's program
	rows    *bufio.Writer
	headers []printedHeader
	maps    map[uint64]*printedTable
	follow  *logReader // reads each event too
	inflate inflater
	unpack  unpacker
}

// file renders a log file.
func (p *logPrinter) file(log *bufio.Reader) error {
	var magic [4]byte
	if _, err := io.ReadFull(log, magic[:]); err != nil || string(magic[:]) != "\xFEbin" {
		return fmt.Errorf("%q is not the start of a log file: %w", magic, err)
	}
	defer p.unpack.close()
	p.startFollow(false)
	for at := uint64(len(magic)); ; {
		head, err := log.Peek(eventHeaderLen)
		if err == io.EOF && len(head) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		raw := make([]byte, binary.LittleEndian.Uint32(head[9:]))
		if _, err := io.ReadFull(log, raw); err != nil {
			return fmt.Errorf("read the event at %d: %w", at, err)
		}
		if eventType(raw[4]) == eventFormat {
			raw[17] &^= eventInUse // as servers do that send it
		}
		if err := p.event(raw); err != nil {
			return fmt.Errorf("the event of type %d at %d: %w", raw[4], at, err)
		}
		at += uint64(len(raw))
	}
}

// eventInUse is the flag of the format description of a file that was not closed, in the low byte of the flags. The
// checksum is that of the event without it.
const eventInUse = 0x01

// startFollow starts a reader that follows no table, from the current event.
func (p *logPrinter) startFollow(checksum bool) {
	maria := p.follow != nil && p.follow.maria
	p.follow = &logReader{names: map[string]int{}, tableMaps: tableMaps{maps: map[uint64]*tableMap{}}, uptoFile: "log.1", uptoOffset: 4}
	p.follow.startBatch(&ChangeBatch{}, nil, 1<<20)
	p.follow.resetConnection()
	p.follow.checksum, p.follow.maria = checksum, maria
}

// event renders an event of the file.
func (p *logPrinter) event(raw []byte) error {
	var e event
	_, err := p.follow.read(raw)
	checksum := p.follow.checksum
	if stop, ok := errors.AsType[*StopError](err); ok {
		p.follow.unpack.close()
		p.startFollow(checksum)
		p.report.Stops[fmt.Sprintf("%v: %s (type %d)", stop.Reason, stopKind(stop), raw[4])]++
	} else if err != nil {
		return err
	}
	if err := e.decode(raw, checksum); err != nil {
		return err
	}
	p.report.Kinds[fmt.Sprint(e.kind)]++
	if err := p.print(&e, e.next); err != nil || e.kind != eventPayload {
		return err
	}
	b, err := p.unpack.unpack(e.body)
	for err == nil && len(b) > 0 {
		var inner event
		size := littleEndian(b[9:13])
		if err = inner.decode(b[:size], false); err == nil {
			p.report.Kinds[fmt.Sprintf("%d in a payload", inner.kind)]++
			err = p.print(&inner, e.next)
		}
		b = b[size:]
	}
	return err
}

// stopKind returns the part of a stop's text that is the same for all of its kind.
func stopKind(stop *StopError) string {
	what, _, _ := strings.Cut(stop.What, ":")
	if words := strings.Fields(stop.SQL); len(words) > 0 { // without literals
		what += ": " + strings.Join(words[:min(len(words), 3)], " ")
	}
	if stop.Err != nil {
		what += ": " + stop.Err.Error()
	}
	return regexp.MustCompile(` at log\.\S+ \d+`).ReplaceAllString(what, "")
}

// print renders an event's header and content.
func (p *logPrinter) print(e *event, end uint32) error {
	p.report.Events++
	header := p.headerOf(e.kind)
	switch kind, version, compressed, ok := e.kind.isRows(); {
	case e.kind == eventTableMap:
		id, m, err := newPrintedTable(e.body, p.maria)
		if err != nil {
			return fmt.Errorf("table map: %w", err)
		}
		p.maps[id] = m
		header += fmt.Sprintf(": %s mapped to number %d", m.name, id)
	case ok || e.kind == eventPartialUpdate:
		if e.kind == eventPartialUpdate {
			kind, version = Update, 2
		}
		id, rest, err := splitRows(e.body, version)
		if err != nil {
			return err
		}
		header += fmt.Sprintf(": table id %d", id)
		if e.body[6]&1 != 0 {
			header += " flags: STMT_END_F"
		}
		if id == dummyTable {
			break
		}
		if version == 2 {
			p.partitions(e.body[10:len(e.body)-len(rest)], kind)
		}
		if err := p.rowsEvent(id, kind, rest, compressed, e.kind == eventPartialUpdate); err != nil {
			return err
		}
	case e.kind == eventQuery || e.kind == eventQueryCompressed || e.kind == eventExecuteLoad:
		if err := p.statement(e); err != nil {
			return err
		}
	}
	if header != "" {
		p.headers = append(p.headers, printedHeader{end, header})
	}
	return nil
}

// dummyTable is the table of the event without rows that ends a statement.
const dummyTable = 0xFFFFFF

// partitions writes the line of MySQL's partition numbers before the rows of an event, which a reader skips.
func (p *logPrinter) partitions(extra []byte, kind ChangeKind) {
	const partitions = 1 // the first byte
	if len(extra) < 3 || extra[0] != partitions {
		return
	}
	_, _ = p.rows.WriteString("### Extra row info for partitioning: ")
	if kind == Update && len(extra) >= 5 {
		fmt.Fprintf(p.rows, "source_partition: %d target_", binary.LittleEndian.Uint16(extra[3:]))
	}
	fmt.Fprintf(p.rows, "partition: %d\n", binary.LittleEndian.Uint16(extra[1:]))
}

// statement writes the lines of a statement that look as those of rows.
func (p *logPrinter) statement(e *event) error {
	q := query{text: e.body}
	if e.kind != eventExecuteLoad { // whose text has more numbers before it
		if err := q.decode(e.body); err != nil {
			return err
		}
	}
	if e.kind == eventQueryCompressed {
		text, err := p.inflate.inflate(q.text)
		if err != nil {
			return err
		}
		q.text = text
	}
	for line := range bytes.Lines(q.text) {
		if bytes.HasPrefix(line, []byte("### ")) {
			_, _ = p.rows.Write(line)
		}
	}
	return nil
}

// rowsEvent renders the rows of an event.
func (p *logPrinter) rowsEvent(id uint64, kind ChangeKind, rest []byte, compressed, partial bool) error {
	m := p.maps[id]
	if m == nil {
		return fmt.Errorf("rows of table %d, which has no map", id)
	}
	var rows rowsEvent
	if err := rows.decode(kind, rest, &m.absent); err != nil { // no column is wanted yet
		return err
	}
	if compressed {
		plain, err := p.inflate.inflate(rows.rows)
		if err != nil {
			return err
		}
		rows.rows = plain
	}
	for len(rows.rows) > 0 {
		fmt.Fprintf(p.rows, "### %s %s\n", map[ChangeKind]string{Insert: "INSERT INTO", Update: "UPDATE", Delete: "DELETE FROM"}[kind], m.name)
		for _, image := range []struct {
			present []byte
			word    string
			before  bool
		}{{rows.before, "WHERE", true}, {rows.after, "SET", false}} {
			if image.present == nil {
				continue
			}
			fmt.Fprintf(p.rows, "### %s\n", image.word)
			p.report.Rows++
			var differences []bool
			if partial && !image.before {
				var err error
				if differences, err = m.partialColumns(&rows, image.present); err != nil {
					return err
				}
			}
			values, whole, err := m.print(p.rows, &rows, image.present, differences)
			p.report.Values += values
			if err != nil {
				return fmt.Errorf("rows of %s: %w", m.name, err)
			}
			if !whole {
				p.report.Unprinted++
				return nil
			}
		}
	}
	if partial {
		return nil // counted as stops
	}
	p.report.RowEvents++
	return nil
}

// headerOf returns the beginning of the line of an event of a type, "" if the program prints none.
func (p *logPrinter) headerOf(kind eventType) string {
	names := map[eventType]string{
		eventQuery: "Query", eventStop: "Stop", eventRotate: "Rotate to", eventFormat: "Start: binlog v 4", eventXID: "Xid = ",
		5: "Intvar", 13: "Rand", 14: "User_var", 9: "Append_block: file_id", 11: "Delete_file: file_id",
		eventBeginLoad: "Begin_load_query: file_id", eventExecuteLoad: "Execute_load_query", eventTableMap: "Table_map",
		eventWriteRowsV1: "Write_rows", eventUpdateRowsV1: "Update_rows", eventDeleteRowsV1: "Delete_rows",
		eventWriteRows: "Write_rows", eventUpdateRows: "Update_rows", eventDeleteRows: "Delete_rows", eventPartialUpdate: "Update_rows_partial",
		eventIncident: "Incident", 29: "Rows_query", eventGTID: "GTID", eventAnonymousGTID: "Anonymous_GTID", eventTaggedGTID: "GTID", 35: "Previous-GTIDs",
		36: "Transaction_context", 37: "View_change", eventXAPrepare: "XA PREPARE X'", eventPayload: "Transaction_Payload",
		160: "Annotate_rows", 161: "Binlog checkpoint", eventMariaGTID: "GTID ", eventMariaGTIDList: "Gtid list", eventStartEncryption: "Ignorable", eventQueryCompressed: "Query_compressed",
		eventWriteCompressedV1: "Write_compressed_rows", 167: "Update_compressed_rows", eventDeleteCompressed1: "Delete_compressed_rows",
		eventWriteCompressed: "Write_compressed_rows", 170: "Update_compressed_rows", eventDeleteCompressed: "Delete_compressed_rows",
	}
	if p.maria && kind == eventXAPrepare {
		return "XID = "
	}
	return names[kind]
}
