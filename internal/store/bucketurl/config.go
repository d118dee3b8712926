package bucketurl

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/localstate"
)

// readConfig reads config_file, of the given type, into a provider's config, which has the defaults. It sets the
// prefix if the URL has none.
func (b *URL) readConfig(kind string, config any) error {
	text, err := localstate.ReadFile(b.file)
	if err != nil {
		return fmt.Errorf("read the bucket's config_file: %w", err)
	}
	var file struct {
		Type   string    `yaml:"type"`
		Prefix string    `yaml:"prefix"`
		Config yaml.Node `yaml:"config"`
	}
	// YAML errors quote the lines that they are about, and these lines contain keys.
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if decoder.Decode(&file) != nil {
		return fmt.Errorf("bucket config_file %s: want the keys type, config and prefix", b.file)
	}
	if !strings.EqualFold(file.Type, kind) {
		return fmt.Errorf("bucket config_file %s: want type: %s", b.file, kind)
	}
	if err := decodeConfig(&file.Config, config); err != nil {
		return fmt.Errorf("bucket config_file %s: %w", b.file, err)
	}
	if b.prefix == "" {
		b.prefix = strings.Trim(path.Clean("/"+file.Prefix), "/")
	}
	return nil
}

// checkBucket returns an error if config_file names another bucket than the URL.
func (b *URL) checkBucket(name string) error {
	if name != "" && name != b.bucket {
		return fmt.Errorf("bucket config_file %s is for bucket %q, the URL for %q", b.file, name, b.bucket)
	}
	return nil
}

// unknownFields extracts the names of unknown fields from an error of the YAML decoder. The rest of the error
// may quote a secret.
var unknownFields = regexp.MustCompile(`field ([A-Za-z_0-9]+) not found`)

// decodeConfig decodes the config section of a file in Thanos' format. Its errors name fields, never values.
func decodeConfig(node *yaml.Node, config any) error {
	text, err := yaml.Marshal(node) // Node.Decode would accept unknown fields
	if err != nil {
		return errors.New("the config section is not YAML")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(config); err != nil {
		if m := unknownFields.FindStringSubmatch(err.Error()); m != nil {
			return errors.New("the config section has an unknown field " + m[1])
		}
		return errors.New("a field of the config section has a value of the wrong kind")
	}
	return nil
}
