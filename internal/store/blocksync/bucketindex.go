package blocksync

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/oklog/ulid/v2"
)

// parseBucketIndex parses a bucket-index.json.gz. It expands a part at a time: a few hundred kilobytes can contain
// millions of elements.
func parseBucketIndex(packed []byte) (*bucketIndex, error) {
	index, err := readBucketIndex(packed)
	if err != nil {
		return nil, fmt.Errorf("bucket index: %w", err)
	}
	if index.Version < 1 || index.Version > 2 {
		return nil, fmt.Errorf("bucket index: version %d is unknown", index.Version)
	}
	return index, nil
}

func readBucketIndex(packed []byte) (*bucketIndex, error) {
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text := &io.LimitedReader{R: zr, N: maxBucketIndex + 1}
	r := indexReader{json: json.NewDecoder(text)}
	if err = r.read(); text.N == 0 {
		err = errTooLong
	}
	return &r.index, err
}

// An indexReader reads a bucket index token by token.
type indexReader struct {
	json  *json.Decoder
	index bucketIndex
}

var errNoIndex = errors.New("the text has another form")

// read reads one object, and the end of the text.
func (r *indexReader) read() error {
	if err := r.delim('{'); err != nil {
		return err
	}
	for r.json.More() {
		key, err := r.json.Token()
		if err != nil {
			return err
		}
		switch key {
		case "version":
			err = r.json.Decode(&r.index.Version)
		case "updated_at":
			err = r.json.Decode(&r.index.UpdatedAt)
		case "blocks":
			err = r.list(r.block)
		case "block_deletion_marks":
			err = r.list(r.mark)
		default:
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
	if err := r.delim('}'); err != nil {
		return err
	}
	switch _, err := r.json.Token(); {
	case err == nil:
		return errNoIndex
	case err != io.EOF:
		return err // also a wrong checksum
	}
	return nil
}

func (r *indexReader) delim(want json.Delim) error {
	token, err := r.json.Token()
	if err == nil && token != want {
		err = errNoIndex
	}
	return err
}

// list calls element for each element of an array. null is an empty one.
func (r *indexReader) list(element func() error) error {
	switch token, err := r.json.Token(); {
	case err != nil || token == nil:
		return err
	case token != json.Delim('['):
		return errNoIndex
	}
	for r.json.More() {
		if err := element(); err != nil {
			return err
		}
	}
	return r.delim(']')
}

func (r *indexReader) block() error {
	var b struct {
		ID string `json:"block_id"`
	}
	if err := r.json.Decode(&b); err != nil {
		return err
	}
	id, err := r.id(b.ID, len(r.index.Blocks))
	r.index.Blocks = append(r.index.Blocks, id)
	return err
}

func (r *indexReader) mark() error {
	var m struct {
		ID           string `json:"block_id"`
		DeletionTime int64  `json:"deletion_time"`
	}
	if err := r.json.Decode(&m); err != nil {
		return err
	}
	id, err := r.id(m.ID, len(r.index.Marks))
	r.index.Marks = append(r.index.Marks, indexMark{id, m.DeletionTime})
	return err
}

// id parses the id of the element after n others.
func (r *indexReader) id(text string, n int) (ulid.ULID, error) {
	if n == maxIndexBlocks {
		return ulid.ULID{}, fmt.Errorf("it has more than %d elements", maxIndexBlocks)
	}
	id, ok := parseBlockID(text)
	if !ok {
		return id, fmt.Errorf("%.60q is no block id", text)
	}
	return id, nil
}

// skip skips a value.
func (r *indexReader) skip() error {
	for depth := 0; ; {
		token, err := r.json.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
