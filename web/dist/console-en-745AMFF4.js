import{a as p,c as m,sa as o}from"./chunk-CTKJVXGS.js";m(p(o,null),document.getElementById("app"));
