import{Oa as o,a as p,c as m}from"./chunk-7SXTJNKZ.js";m(p(o,null),document.getElementById("app"));
