import{a as p,c as m,qa as o}from"./chunk-TRSOKPTK.js";m(p(o,null),document.getElementById("app"));
