import{a as p,c as m,sa as o}from"./chunk-IPU2IOSM.js";m(p(o,null),document.getElementById("app"));
