package statestore

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Same reports whether plain data, such as parts of a spec, is encoded the same. Most
// of a spec is as before, and then comparing it in memory is much less work.
func Same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	ja, errA := json.Marshal(a)
	jb, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(ja, jb)
}
