package config

import "strings"

// countries are the codes that ISO 3166-1 assigns, and XK, which GeoIP databases
// use for Kosovo.
const countries = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
	"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR " +
	"GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP " +
	"KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ " +
	"NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW " +
	"SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ " +
	"UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"

// continents are codes as GeoIP databases use them. Where both may stand, AF, AS,
// NA and SA are continents and not Afghanistan, American Samoa, Namibia and Saudi
// Arabia.
const continents = "AF AN AS EU NA OC SA"

// oneOfCodes reports whether s is one of the two-letter codes of list.
func oneOfCodes(list, s string) bool {
	return len(s) == 2 && !strings.Contains(s, " ") && strings.Contains(" "+list+" ", " "+s+" ")
}

// country is a country's code.
func country() *schema {
	return codes("country", "a country code such as IE", func(s string) bool { return oneOfCodes(countries, s) })
}

// code is a country's or continent's code.
func code() *schema {
	return codes("code", "a country code such as IE, or a continent: "+strings.ReplaceAll(continents, " ", ", "), func(s string) bool {
		return oneOfCodes(continents, s) || oneOfCodes(countries, s)
	})
}

func codes(typ, must string, has func(string) bool) *schema {
	s := scalar(typ, must, nil)
	s.parse = func(text string) (any, string) {
		switch upper := strings.ToUpper(text); {
		case has(text):
			return text, ""
		case text == "UK":
			return nil, "be " + must + " (the United Kingdom is GB)"
		case text == "EU":
			return nil, "be " + must + " (no continent can stand here)"
		case has(upper):
			return nil, "be in capitals, " + upper
		default:
			return nil, "be " + must
		}
	}
	return s
}
