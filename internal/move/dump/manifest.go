package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Version is the version of the format of dumps that is written. Older ones are read.
const Version = 1

const (
	format       = "tare dump"
	manifestName = "manifest.json"
	partialName  = "manifest.partial.json"
	newSuffix    = ".new" // of a manifest that is being written to a directory
)

// maxChunkBytes bounds the bytes of a chunk's rows: more than a chunk can have.
const maxChunkBytes = 1 << 40

// Errors of dumps that cannot be loaded.
var (
	ErrUnfinished = errors.New("the dump is unfinished")
	ErrDamaged    = errors.New("the dump is damaged")
)

// A Manifest describes a dump. Fields are added, never renamed; an incompatible change increments Version.
type Manifest struct {
	ID       string    `json:"id"`  // of the dump
	Run      string    `json:"run"` // token of the run that wrote the manifest
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`

	Source   string `json:"source"`   // session.ServerIdentity
	Version  string `json:"version"`  // of the source; empty if it is unknown
	Snapshot string `json:"snapshot"` // how the snapshot was taken
	Position
	Selection string `json:"selection"` // the request, which a run that resumes must repeat

	Tables  []*Table            `json:"tables"`
	Objects []*inventory.Object `json:"objects"` // of the tables' schemas; null if the source does not list them
}

// A Position is that of the source's binary log at the snapshot. Its fields are empty if the source does not report it.
type Position struct {
	File   string `json:"binlog_file"`
	Offset uint64 `json:"binlog_offset"`
	GTID   string `json:"gtid"`
}

// String returns the text for binlog.ParsePosition.
func (p Position) String() string {
	return binlog.Position{File: p.File, Offset: p.Offset, GTID: p.GTID}.String()
}

// A Table is a table of a dump.
type Table struct {
	Schema string           `json:"schema"`
	Name   string           `json:"name"`
	Spec   string           `json:"spec"`   // the selection of rows
	Create File             `json:"create"` // CREATE TABLE
	Load   string           `json:"load"`   // the statement that loads a chunk's text, for people
	Shape  *rowstream.Table `json:"shape"`  // without Create
	Chunks []*Chunk         `json:"chunks"`
}

// A Chunk is the rows of a range of a table's key.
type Chunk struct {
	After mysqlwire.TextRow `json:"after"` // base64; null: the first key
	Upto  mysqlwire.TextRow `json:"upto"`  // base64; null: the last key
	Done  bool              `json:"done"`
	Rows  int64             `json:"rows"`
	Bytes int64             `json:"bytes"` // of the rows, uncompressed
	Sum   string            `json:"sum"`   // rowstream.Checksum, hexadecimal
	Sums  []ColumnSum       `json:"sums,omitempty"`
	Files []File            `json:"files"`
}

// A ColumnSum is the checksum of the rows over other columns, generated ones among them.
type ColumnSum struct {
	Columns []int  `json:"columns"`
	Sum     string `json:"sum"`
}

// A File is a file of the dump.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// An envelope is the file of a manifest. The checksum is over the bytes of the manifest without insignificant space.
type envelope struct {
	Format  string          `json:"format"`
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Dump    json.RawMessage `json:"dump"`
}

// encode returns the file of a manifest.
func (m *Manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return json.Marshal(envelope{Format: format, Version: Version, SHA256: sumOf(text), Dump: text})
}

// decodeManifest decodes the file of a manifest. A changed one is an error.
func decodeManifest(text []byte) (*Manifest, error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("%w: it is truncated or changed: %w", ErrDamaged, err)
	}
	if e.Format != format {
		return nil, fmt.Errorf("it is not the manifest of a dump: its format is %.40q, not %q", e.Format, format)
	}
	if e.Version < 1 || e.Version > Version {
		return nil, fmt.Errorf("the dump has version %d of the format, and this program reads up to %d: use a later release", e.Version, Version)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Dump); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if sumOf(compact.Bytes()) != e.SHA256 {
		return nil, fmt.Errorf("%w: its SHA-256 is not the one that it contains: it was changed", ErrDamaged)
	}
	m := &Manifest{}
	if err := json.Unmarshal(e.Dump, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for i, o := range m.Objects {
		if o == nil {
			return nil, fmt.Errorf("%w: object %d is null", ErrDamaged, i)
		}
	}
	listed := make(map[[2]string]bool)
	for i, t := range m.Tables {
		if t == nil {
			return nil, fmt.Errorf("%w: table %d is null", ErrDamaged, i)
		}
		name := [2]string{t.Schema, t.Name}
		if listed[name] {
			return nil, fmt.Errorf("%w: table %s.%s: it is listed twice", ErrDamaged, t.Schema, t.Name)
		}
		listed[name] = true
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("%w: table %s.%s: %w", ErrDamaged, t.Schema, t.Name, err)
		}
	}
	return m, nil
}

// check returns an error for a table that cannot be read.
func (t *Table) check() error {
	if t.Schema == "" || t.Name == "" || t.Shape == nil || len(t.Shape.Columns) == 0 {
		return errors.New("its name or its columns are missing")
	}
	s := t.Shape
	for _, k := range s.Key {
		if k < 0 || k >= len(s.Columns) {
			return fmt.Errorf("its key has column %d of %d", k, len(s.Columns))
		}
	}
	for i := range s.Columns {
		if err := s.Columns[i].Known(); err != nil {
			return err
		}
	}
	if err := t.checkChunks(); err != nil {
		return err
	}
	if !fs.ValidPath(t.Create.Name) {
		return fmt.Errorf("its definition has the name %.100q", t.Create.Name)
	}
	return nil
}

// checkChunks returns an error unless each chunk starts at the end of the previous one, and has files of valid names.
func (t *Table) checkChunks() error {
	var after mysqlwire.TextRow
	for i, c := range t.Chunks {
		if c == nil {
			return fmt.Errorf("chunk %d is null", i)
		}
		if c.Rows < 0 || c.Bytes < 0 || max(c.Rows, c.Bytes) > maxChunkBytes {
			return fmt.Errorf("chunk %d has %d rows of %d bytes", i, c.Rows, c.Bytes)
		}
		if !sameKey(after, c.After) || i > 0 && after == nil {
			return fmt.Errorf("chunk %d does not start at the end of the previous one", i)
		}
		if after = c.Upto; after != nil && len(after) != len(t.Shape.Key) {
			return fmt.Errorf("chunk %d ends at a key of %d columns", i, len(after))
		}
		for _, f := range c.Files {
			if !fs.ValidPath(f.Name) || f.Size < 0 || f.Size > maxManifestBytes {
				return fmt.Errorf("chunk %d has a file of the name %.100q", i, f.Name)
			}
		}
	}
	return nil
}

// finished returns an error unless all rows of the table are in files.
func (t *Table) finished() error {
	for i, c := range t.Chunks {
		if !c.Done {
			return fmt.Errorf("chunk %d is missing", i)
		}
	}
	if n := len(t.Chunks); n == 0 || t.Chunks[n-1].Upto != nil {
		return fmt.Errorf("its last rows are missing after %d chunks", n)
	}
	return nil
}

// table returns a table; nil if the dump does not have it.
func (m *Manifest) table(schema, name string) *Table {
	for _, t := range m.Tables {
		if t.Schema == schema && t.Name == name {
			return t
		}
	}
	return nil
}

func sameKey(a, b mysqlwire.TextRow) bool {
	return bytes.Equal(rowstream.EncodeKey(a), rowstream.EncodeKey(b)) && (a == nil) == (b == nil)
}

// sumOf returns the SHA-256 of a text, in hexadecimal digits.
func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func rowSum(sum uint64) string { return fmt.Sprintf("%016x", sum) }
