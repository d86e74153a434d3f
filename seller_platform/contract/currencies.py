"""The currencies in use, by their alphabetic codes of ISO 4217."""

from collections.abc import Mapping

_CODES = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE
CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD
HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD
MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR
RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH
UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
"""

CURRENCIES = frozenset(_CODES.split())
"""The currencies that amounts can have, without metals, test codes and the code for no currency."""

MINOR_DIGITS = 2
"""The decimals of an amount in most currencies."""

_WITHOUT_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_WITH_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"

OTHER_MINOR_DIGITS: Mapping[str | None, int] = {
    **dict.fromkeys(_WITHOUT_DECIMALS.split(), 0),
    **dict.fromkeys(_WITH_THREE_DECIMALS.split(), 3),
    "CLF": 4,
    "UYW": 4,
}
"""The decimals of an amount in the others, by ISO 4217."""


def minor_digits(currency: str | None) -> int:
    """Return the decimals of an amount in a currency; of one that is not known those of most."""
    return OTHER_MINOR_DIGITS.get(currency or "", MINOR_DIGITS)
