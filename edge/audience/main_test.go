package audience_test

import (
	"testing"

	"waypost/edge/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
