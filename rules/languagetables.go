package rules

// Entries of the tables are separated by commas or line ends, and their words by spaces.

// replacedLanguages holds languages with several codes, the preferred one first: the
// codes that the registry of languages (RFC 5646, of 2025-08-25) replaces, the codes of
// ISO 639-3 for languages with two letters, and tl, which CLDR counts as fil.
const replacedLanguages = `
aa aar, aas aam, ab abk, acn xia, adx pcr, ae ave, aeb ajt, af afr, ak aka, am amh, an arg, aog myd
apc ajp, ar ara, as asm, av ava, ay aym, az aze, ba bak, bcg bgm, be bel, bfy ppa, bg bul, bh bih
bi bis, bir bic, bm bam, bmf krm, bn ben, bo bod, bpp nxu, br bre, bs bos, ca cat, cax xba, cbr nom
ce che, ch cha, cir meg, cmr cka, co cos, cr cre, crr pmk, cs ces, cu chu, cv chv, cy cym, da dan
de deu, dev gav, dif dit, dmw xrq, drl bjd, dtp ktr kzj kzt tdu, duz guv, dv div, dz adp dzo, ee ewe
eko nte, el ell, ema uok, en eng, eo epo, es spa, et est, eu eus, fa fas, ff ful, fi fin, fil tgl tl
fj fij, fo fao, fr fra, fy fry, ga gle, gal ilw, gd gla, gdj kvs, gl glg, gn grn, gu guj prp, gv glv
gvr ggn, ha hau, he heb iw, hi hin, hle sca, ho hmo, hr hrv, ht hat, hu hun, huw pmc, hy hye, hz her
ia ina, iba blg snb, id in ind, ie ile, ig ibo, ii iii, ik ipk, io ido, is isl, it ita, iu iku
ja jpn, jal hrr, jv jav jw, ka kat, kak tne, kdz ncp, kg kon, khk drh, ki kik, kj kua, kjh zkb
kk kaz, kl kal, km khm, kmb smd, kml kgh, kn kan, ko kor, kr kau, kru kxl, ks kas, ksp lak, ktz aue
ku kur, kv kom, kw cor, kwv koj, kxr pat, ky kir, kzk drr gli, la lat, lb ltz, lcq ppr, lg lug
li lim, ln lin, lo lao, lrr yma, lt lit, lu lub, lv lav, mg mlg, mh mah, mi mri, mk mkd, ml mal
mn mon, mom cjr, mr mar, mry mst myt, ms msa, mt mlt, mtm ymt, my mya, na nau, nb nob, nbr nns
nd nde, ne nep, ng ndo, ngt llo, ngv nnx, nl nld, nn nno, no nor, nr nbl, nun ayx, nv nav, ny nya
nyc gti, oc oci, oj oji, ola thw, om orm, opa ibi, or ori, os oss, oyb jeg skk thx, pa pan, phr pmu
pi pli, pij coy nts, pl pol, plu kgm, prs drw tnf, prt pry, ps pus, pt por, pub puz, qu que, quh cqu
raq lii, ras tie, rki ccq ybd, rm roh, rmx lmm, rn run, ro mo mol ron, ru rus, rw kin, sa san, sc srd
scv zir, sd snd, se sme, sg sag, sh hbs, si sin, sk slk, sl slv, sm smo, sn sna, snz asd, so som
sq sqi, sqm dek, sr srp, ss ssw, st sot, su sun, sv swe, sw swa, ta tam, taj tsf, tdf kgc, tdg tmk
te tel, tg tgk, th tha, ti tir, tk tuk, tn tsn, to ton, tpn tpw, tpo thc, tr tur, ts tso, tt tat
tvd kxe, tw twi, twm tkk, ty tah, tyj tmp, ug uig, uk ukr, umi szd, ur urd, uz uzb, vaj gfx mwj oun
ve ven, vi vie, vo vol, wa wln, waw xkh, weo tlw, wo wol, xch cmk, xh xho, xny nad, yam kwq
yi ji yid, yo yor, yug yuu, za zha, zh zho, zko xss, zom yos, zu zul
`

// replacedRegions holds the region that is meant by each code that the registry replaces,
// or that people write in its place.
const replacedRegions = `
CD ZR, DE DD, FR FX, GB UK, MM BU, TL TP, YE YD
`

// macrolanguages holds each macrolanguage of the registry, the language that is usually
// meant by it (CLDR), or a hyphen, and its other languages. Indonesian does not belong to
// Malay here, because an owner who asks for Malay does not mean it.
const macrolanguages = `
ak tw fat
ar arb aao abh abv acm acq acw acx acy adf aeb aec afb apc apd arq ars ary arz auz avl ayh ayl ayn
ar - ayp bbz pga shu ssh
ay ayr ayc
az azj azb
bal bcc bgn bgp
bik bcl bhk bln bto cts fbl lbl rbl ubl
bnc lbk ebk obk rbk vbk
bua bxr bxm bxu
chm mhr mrj
cr cwd crj crk crl crm csw
del umu unm
den xsl scs
din dik dib dip diw dks
doi dgo xnr
et ekk vro
fa pes prs
ff fuc ffm fub fue fuf fuh fui fuq fuv
gba gya bdt gbp gbq gmm gso
gn gug gnw gui gun nhd
gon gno esg wsg
grb gbo gec grj grv gry
hai hdn hax
hmn hea cqd hma hmc hmd hme hmg hmh hmi hmj hml hmm hmp hmq hms hmw hmy hmz hnj hrm huj mmr muq mww
hmn - sfm
ik esk esi
iu ike ikt
jrb - aju jye yhd yud
kg kng kwy ldi
kln spy enb eyo niq oki pko sgc tec tuy
kok gom knn
kpe xpe gkp
kr knc kby krt
ku kmr ckb sdh
kv kpv koi
lah pnb hnd hno jat phr skr xhe
luy bxk ida lkb lko lks lri lrm lsm lto lts lwg nle nyd rag
lv lvs ltg
man emk mku mlq mnk msc mwk myq
mg plt bhr bjq bmm bzc msh skg tdx tkg txy xmv xmw
mn khk mvf
ms zsm bjn btj bve bvu coa dup hji jak jax kvb kvr kxd lce lcf liw max meo mfa mfb min mqg msi mui
ms - orn ors pel pse tmw urk vkk vkt xmm zlm zmi
mwr dhd mtr mve rwr swv wry
ne npi dty
no nb nn
oj ojg ciw ojb ojc ojs ojw otw
om gaz gax hae orc
or ory spv
ps pbu pbt pst
qu quz qub qud quf qug quh quk qul qup qur qus quw qux quy qva qvc qve qvh qvi qvj qvl qvm qvn qvo
qu - qvp qvs qvw qvz qwa qwc qwh qws qxa qxc qxh qxl qxn qxo qxp qxr qxt qxu qxw
raj mup bgq gda gju hoj wbr
rom rmy rmc rmf rml rmn rmo rmw
sa - cls vsn
sc src sdc sdn sro
sh sr bs cnr hr
sq als aae aat aln
sw swh swc
syr cld aii
tmh ttq taq thv thz
uz uzn uzs
yi ydd yih
za zyb zch zeh zgb zgm zgn zhd zhn zlj zln zlq zqe zyg zyj zyn zzj
zap zai zaa zab zac zad zae zaf zam zao zaq zar zas zat zav zaw zax zca zcd zoo zpa zpb zpc zpd zpe
zap - zpf zpg zph zpi zpj zpk zpl zpm zpn zpo zpp zpq zpr zps zpt zpu zpv zpw zpx zpy zpz zsr zte
zap - ztg ztl ztm ztn ztp ztq zts ztt ztu ztx zty
zh cmn cdo cjy cnp cpx csp czh czo gan hak hnm hsn luh lzh mnp nan sjc wuu yue
zza diq kiu
`

// usualScripts holds scripts with the languages that are written in them, or are in a
// region (CLDR 32). All others are in Latin letters, or rare.
const usualScripts = `
Arab ar az-IQ az-IR fa ha-CM ha-SD kk-AF kk-CN kk-IR kk-MN ks ku-LB ky-CN ms-CC ms-ID pa-PK ps sd
Arab tg-PK ug ur uz-AF bal bgn ckb doi hno lah pnb skr
Armn hy
Avst ae
Beng as bn mni
Cans cr iu
Cher chr
Cyrl ab av az-RU ba be bg ce cu cv kk kv ky mk mn os ru sr tg tt ug-KZ ug-MN uk uz-CN abq ady alt
Cyrl bua inh kbd krc kum lez mdf mhr mrj myv sah tyv udm
Deva hi mr ne sa awa bho brx gom kok mag mai raj
Ethi am ti tig
Geor ka
Grek el
Gujr gu
Guru pa
Hans zh gan hak hsn lzh nan wuu yue-CN
Hant zh-AU zh-BN zh-GB zh-GF zh-HK zh-ID zh-MO zh-MY zh-PA zh-PF zh-PH zh-SR zh-TH zh-TW zh-US zh-VN
Hant yue
Hebr he yi
Jpan ja
Khmr km
Knda kn tcy
Kore ko
Laoo lo
Latn sh ky-TR sr-ME sr-RO sr-RU sr-TR rif-NL
Mlym ml
Mong mn-CN
Mymr my
Nkoo nqo
Orya or
Sinh si
Syrc syr
Taml ta
Telu te
Tfng rif shi zgh
Thaa dv
Thai th
Tibt bo dz
Yiii ii
`

// usualRegions holds the region in which a language is usual in a script, for languages
// with several (CLDR 32).
const usualRegions = `
az-Arab IR, az-Cyrl AZ, az-Latn AZ, bs-Cyrl BA, bs-Latn BA, ha-Latn NG, kk-Arab CN, kk-Cyrl KZ
ku-Arab IQ, ku-Latn TR, ky-Arab CN, ky-Cyrl KG, ky-Latn TR, mn-Cyrl MN, mn-Mong CN, ms-Latn MY
pa-Arab PK, pa-Guru IN, sd-Arab PK, sd-Deva IN, sr-Cyrl RS, sr-Latn RS, tg-Arab PK, tg-Cyrl TJ
ug-Arab CN, ug-Cyrl KZ, uz-Arab AF, uz-Cyrl UZ, uz-Latn UZ, yue-Hans CN, yue-Hant HK, zh-Hans CN
zh-Hant TW
`
