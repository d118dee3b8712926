package bucketurl

import (
	"bytes"
	"errors"
	"regexp"

	"github.com/thanos-io/objstore/providers/s3"
	"go.yaml.in/yaml/v3"
)

// s3Fields extracts the names of unknown fields from an error of the YAML decoder. The rest of the error may
// quote a secret.
var s3Fields = regexp.MustCompile(`field ([A-Za-z_0-9]+) not found`)

// s3ConfigOf decodes the config section of a file in Thanos' format. Its errors name fields, never values.
func s3ConfigOf(node *yaml.Node) (s3.Config, error) {
	config := s3.DefaultConfig
	config.PutUserMetadata = nil    // a map shared by the package; nothing is written
	text, err := yaml.Marshal(node) // Node.Decode would accept unknown fields
	if err != nil {
		return s3.Config{}, errors.New("the config section is not YAML")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		if m := s3Fields.FindStringSubmatch(err.Error()); m != nil {
			return s3.Config{}, errors.New("the config section has an unknown field " + m[1])
		}
		return s3.Config{}, errors.New("a field of the config section has a value of the wrong kind")
	}
	return config, nil
}
